# The image of leaderrun alone: for an init container that copies it into a volume
# (leaderrun install), or as a base. It has no shell, and runs as nobody.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -buildid=' -o /leaderrun .

FROM scratch
COPY --from=build /leaderrun /leaderrun
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
USER 65534:65534
ENTRYPOINT ["/leaderrun"]
