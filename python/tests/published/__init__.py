"""Layers of language models, written in numpy from their authors' sources alone; test_published.py holds the program against them."""
# SPDX-License-Identifier: Apache-2.0
