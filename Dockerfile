# syntax=docker/dockerfile:1
# The server in a small image without a shell, as a user without rights. docs/installation.md says how to run it.
#
#     docker build --build-arg EMERGENT_COMMIT="$(git rev-parse --short=9 HEAD)" -t emergent .

FROM node:22-slim AS web
WORKDIR /source/web
COPY web/package.json web/package-lock.json web/.npmrc ./
RUN npm ci --no-audit --no-fund
COPY web ./
RUN npm run build

FROM rust:1-slim-bookworm AS build
WORKDIR /source
# The image has no git and the context no history, so the commit for `emergent --version` is an argument.
ARG EMERGENT_COMMIT=
COPY . .
COPY --from=web /source/web/dist web/dist
# The toolchain of the image is used as it is; this file would make rustup download another one.
RUN rm -f rust-toolchain.toml
# Registry and build are cached between builds, and the program is copied out of the cache.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/source/target \
    EMERGENT_COMMIT="$EMERGENT_COMMIT" cargo build --release --locked -p emergent && \
    strip --strip-debug --output-file=/emergent target/release/emergent && \
    mkdir -p /volume/data

# glibc, libgcc, root certificates and time zones, and nothing else: no shell, no package manager.
FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build --chmod=0755 /emergent /usr/local/bin/emergent
# 65532 is `nonroot` of the base image. A new volume takes over the owner of the folder it is mounted on.
COPY --from=build --chown=65532:65532 /volume/ /
USER 65532:65532
ENV EMERGENT_DATA_DIR=/data EMERGENT_LISTEN=0.0.0.0:4400
VOLUME /data
EXPOSE 4400
HEALTHCHECK --interval=10s --timeout=6s --start-period=30s --retries=3 CMD ["/usr/local/bin/emergent", "health"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/emergent"]
CMD ["serve"]
