package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"encoding/pem"
	"io"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	"github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// layout is an archive that is being written. The first error is kept until close.
type layout struct {
	archive *archive
	created time.Time
	known   map[digest.Digest]bool
}

func newLayout(w io.Writer, created time.Time) *layout {
	l := &layout{&archive{tar.NewWriter(w), created, nil}, created, map[digest.Digest]bool{}}
	l.archive.dir("blobs/", 0o755)
	l.archive.dir("blobs/sha256/", 0o755)
	return l
}

// blob adds content, once.
func (l *layout) blob(mediaType string, content []byte) v1.Descriptor {
	d := v1.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(content), Size: int64(len(content))}
	if !l.known[d.Digest] {
		l.archive.file("blobs/sha256/"+d.Digest.Encoded(), 0o644, content)
		l.known[d.Digest] = true
	}
	return d
}

func (l *layout) document(mediaType string, v any) v1.Descriptor {
	text, err := json.Marshal(v)
	l.archive.keep(err)
	return l.blob(mediaType, text)
}

// image adds the image of one platform.
func (l *layout) image(p v1.Platform, labels map[string]string, program []byte) v1.Descriptor {
	files := root(program, l.created)
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	l.archive.keep(err)
	_, err = z.Write(files)
	l.archive.keep(err)
	l.archive.keep(z.Close())

	config := v1.Image{
		Created:  &l.created,
		Platform: p,
		Config:   v1.ImageConfig{User: "65534:65534", Entrypoint: []string{"/leaderrun"}, Labels: labels},
		RootFS:   v1.RootFS{Type: "layers", DiffIDs: []digest.Digest{digest.FromBytes(files)}},
	}
	d := l.document(v1.MediaTypeImageManifest, v1.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2},
		MediaType: v1.MediaTypeImageManifest,
		Config:    l.document(v1.MediaTypeImageConfig, config),
		Layers:    []v1.Descriptor{l.blob(v1.MediaTypeImageLayerGzip, packed.Bytes())},
	})
	d.Platform = &p
	return d
}

// close adds the index of the images, with the name that tools show.
func (l *layout) close(name string, images []v1.Descriptor) error {
	index := func(of ...v1.Descriptor) v1.Index {
		return v1.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageIndex, Manifests: of}
	}
	all := l.document(v1.MediaTypeImageIndex, index(images...))
	all.Annotations = map[string]string{v1.AnnotationRefName: name}
	for _, f := range []struct {
		name string
		v    any
	}{{v1.ImageIndexFile, index(all)}, {v1.ImageLayoutFile, v1.ImageLayout{Version: v1.ImageLayoutVersion}}} {
		text, err := json.Marshal(f.v)
		l.archive.keep(err)
		l.archive.file(f.name, 0o644, text)
	}
	l.archive.keep(l.archive.w.Close())
	return l.archive.err
}

// root returns the root file system, as an archive.
func root(program []byte, created time.Time) []byte {
	var b bytes.Buffer
	a := &archive{tar.NewWriter(&b), created, nil}
	for _, dir := range []string{"etc/", "etc/ssl/", "etc/ssl/certs/"} {
		a.dir(dir, 0o755)
	}
	a.file("etc/ssl/certs/ca-certificates.crt", 0o644, authorities())
	a.dir("tmp/", 0o1777) // for the lease file
	a.file("leaderrun", 0o755, program)
	_ = a.w.Close() // into memory
	return b.Bytes()
}

// authorities returns the certificate authorities that Mozilla trusts without conditions: a
// file of certificates cannot express conditions.
func authorities() []byte {
	var b bytes.Buffer
	for r := range bundle.Roots() {
		if r.Constraint == nil {
			_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate}) // into memory
		}
	}
	return b.Bytes()
}

// archive is a tar file. All entries have the same time and belong to root. The first error
// is kept.
type archive struct {
	w       *tar.Writer
	created time.Time
	err     error
}

func (a *archive) keep(err error) {
	if a.err == nil {
		a.err = err
	}
}

func (a *archive) dir(name string, mode int64) {
	a.keep(a.w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: mode, ModTime: a.created}))
}

func (a *archive) file(name string, mode int64, content []byte) {
	a.keep(a.w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content)), ModTime: a.created}))
	_, err := a.w.Write(content)
	a.keep(err)
}
