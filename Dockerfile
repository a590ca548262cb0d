# A live server: docker build --tag simulzoo . && docker run --publish 8741:8741 simulzoo
# docs/conference.md has more. A base with CUDA and the index of its builds of torch are arguments.
ARG BASE=debian:bookworm-slim
FROM ${BASE}

ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu

# The packages of a base that is an argument have no versions in common to pin.
# hadolint ignore=DL3008
RUN apt-get update \
  && apt-get install --yes --no-install-recommends python3 python3-venv \
  && rm -rf /var/lib/apt/lists/* \
  && python3 -m venv /opt/venv
ENV PATH=/opt/venv/bin:${PATH}

WORKDIR /opt/simulzoo
COPY constraints.txt pyproject.toml setup.py README.md LICENSE ./
COPY conf conf
COPY zoo zoo
COPY checkpoints checkpoints
RUN pip install --no-cache-dir --extra-index-url "${TORCH_INDEX}" \
  --constraint constraints.txt --editable '.[live]'

# Logs are written to outputs/ of this folder, caches to the home folder.
RUN useradd --create-home --uid 1000 simulzoo && install --directory --owner simulzoo /srv/simulzoo
USER 1000
WORKDIR /srv/simulzoo
VOLUME /srv/simulzoo

EXPOSE 8741
HEALTHCHECK --start-period=5m CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8741/health')"]
ENTRYPOINT ["simulzoo", "live", "host=0.0.0.0"]
