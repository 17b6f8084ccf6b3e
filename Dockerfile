# Crosstalk for the CPU in a container: builds from the sources here, keeps the program and what draws figures.
#
#   docker build -t crosstalk .
#   docker run --rm -v "$PWD:/work" crosstalk run /usr/local/share/crosstalk/experiments/quickstart.toml
#   docker run --rm -v "$PWD:/work" crosstalk plot capacity runs/quickstart
#
# SPDX-License-Identifier: Apache-2.0
FROM debian:12 AS build
COPY scripts /src/scripts
# CROSSTALK_PYTHON=true: no matplotlib here, figures are drawn in the image below.
RUN CROSSTALK_PYTHON=true bash /src/scripts/install-deps.sh --minimal
COPY . /src
RUN cmake -S /src -B /build -G Ninja -DCROSSTALK_CUDA=OFF -DCROSSTALK_TESTS=OFF -DCROSSTALK_PORTABLE=ON \
      -DCROSSTALK_ARCH=x86-64-v3 \
 && cmake --build /build --target crosstalk \
 && cmake --install /build --prefix /installed --strip

FROM debian:12-slim
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3-matplotlib \
 && rm -rf /var/lib/apt/lists/*
COPY --from=build /installed /usr/local
WORKDIR /work
ENTRYPOINT ["crosstalk"]
