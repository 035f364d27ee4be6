# The image of leaderrun alone: for an init container that copies it into a volume
# (leaderrun install), or as a base. It has no shell, and runs as nobody. .git is
# copied for the build, so that leaderrun version can say what this is.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# The CAs are for rediss: and postgres:, /tmp for the lease file.
RUN CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -buildid=' -o /image/leaderrun . \
	&& install -D -m 644 /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/ca-certificates.crt \
	&& install -d -m 1777 /image/tmp

FROM scratch
COPY --from=build /image /
USER 65534:65534
ENTRYPOINT ["/leaderrun"]
