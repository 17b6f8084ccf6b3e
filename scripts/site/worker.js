// Pages opened from a folder may start no workers, which the search needs: there, a hidden frame takes the worker's place.
// SPDX-License-Identifier: Apache-2.0
"use strict";
if (location.protocol === "file:")
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      document.body.append(frame);
      this.frame = frame.contentWindow;
      const load = address => new Promise((done, failed) => {
        const script = this.frame.document.createElement("script");
        script.src = address;
        script.onload = done;
        script.onerror = failed;
        this.frame.document.body.append(script);
      });
      this.frame.postMessage = data => this.tell(data);
      this.frame.importScripts = (...addresses) =>
        addresses.reduce((before, address) => before.then(() => load(new URL(address, url).href)), Promise.resolve());
      this.ready = load(url);
    }
    tell(data) {
      const event = new MessageEvent("message", {data});
      this.dispatchEvent(event);
      if (this.onmessage) this.onmessage(event);
    }
    postMessage(data) {
      this.ready.then(() => this.frame.dispatchEvent(new this.frame.MessageEvent("message", {data})));
    }
    terminate() {
      this.frame.frameElement.remove();
    }
  };
