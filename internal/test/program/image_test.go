//go:build linux

package program

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/redis/go-redis/v9"

	"github.com/leaderrun/leaderrun/internal/test/must"
	"github.com/leaderrun/leaderrun/internal/test/script"
)

// The image that scripts/release makes, run like a container: leaderrun is process 1 of a
// pid namespace, runs as the image's user, and reaches a Redis over TLS.
func TestImage(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make namespaces, and change the root")
	}
	config, root := unpacked(t)
	if config.User != "65534:65534" || config.Labels[v1.AnnotationVersion] != "1.2.3" {
		t.Errorf("config %+v", config)
	}
	server := script.StartRedis(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1})
	defer client.Close()
	certs := script.NewCertificates(t, t.TempDir())
	addr := certs.ServeTLS(t, client, "server")

	uid, gid, _ := strings.Cut(config.User, ":")
	inside := func(store string, command ...string) (string, error) {
		args := append([]string{
			"--fork", "--kill-child", "--pid", "--mount", "--mount-proc=/proc", "--root", root, "--wd", "/", "--setuid", uid, "--setgid", gid,
		}, config.Entrypoint...)
		args = append(args, "--store", store, "--key", "k", "--")
		run := exec.Command("unshare", append(args, command...)...)
		run.Env = []string{}
		out, err := run.CombinedOutput()
		return string(out), err
	}
	authorities, err := os.ReadFile(root + "/etc/ssl/certs/ca-certificates.crt")
	if n := bytes.Count(authorities, []byte("BEGIN CERTIFICATE")); err != nil || n < 100 {
		t.Errorf("%d authorities, %v", n, err)
	}
	if out, err := inside("rediss://"+addr, "/leaderrun", "check"); err == nil || !strings.Contains(out, "not signed by a CA that this host trusts") {
		t.Errorf("a server of an unknown authority: %v\n%s", err, out)
	}
	must.Succeed(t, os.WriteFile(root+"/tmp/ca.pem", []byte(must.Read(t, certs.File("ca.pem"))), 0o644))
	if out, err := inside("rediss://"+addr+"?ca=/tmp/ca.pem", "/leaderrun", "check"); err != nil || out != "" {
		t.Errorf("in the container: %v\n%s", err, out)
	}
	if left, err := filepath.Glob(root + "/tmp/leaderrun-*"); len(left) != 0 || err != nil {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

// unpacked makes the image for this machine and unpacks it.
func unpacked(t *testing.T) (v1.ImageConfig, string) {
	t.Helper()
	program, err := exec.LookPath("leaderrun")
	must.Succeed(t, err)
	file := filepath.Join(t.TempDir(), "image.tar")
	tool := exec.Command("go", "run", "./internal/tools/image", file, "1.2.3", "abc", "linux/"+runtime.GOARCH+"="+program)
	tool.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1795354247")
	if out, err := tool.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	archive, err := os.Open(file)
	must.Succeed(t, err)
	defer archive.Close()
	dir := t.TempDir()
	extract(t, archive, dir)

	var index, images v1.Index
	var manifest v1.Manifest
	var image v1.Image
	decode(t, []byte(must.Read(t, filepath.Join(dir, v1.ImageIndexFile))), &index)
	decode(t, blob(t, dir, index.Manifests[0]), &images)
	decode(t, blob(t, dir, images.Manifests[0]), &manifest)
	decode(t, blob(t, dir, manifest.Config), &image)
	if image.OS != "linux" || image.Architecture != runtime.GOARCH || !reflect.DeepEqual(*images.Manifests[0].Platform, image.Platform) {
		t.Errorf("for %+v, and %+v", image.Platform, images.Manifests[0].Platform)
	}
	z, err := gzip.NewReader(bytes.NewReader(blob(t, dir, manifest.Layers[0])))
	must.Succeed(t, err)
	files, err := io.ReadAll(z)
	if err != nil || digest.FromBytes(files) != image.RootFS.DiffIDs[0] {
		t.Fatalf("the layer is not that of the config: %v", err)
	}
	root := shared(t)
	extract(t, bytes.NewReader(files), root)
	must.Succeed(t, os.Mkdir(root+"/proc", 0o755)) // by who runs containers
	return image.Config, root
}

// shared is a directory that every user can reach.
func shared(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for dir := root; dir != os.TempDir(); dir = filepath.Dir(dir) {
		must.Succeed(t, os.Chmod(dir, 0o755))
	}
	return root
}

// blob returns the content of a descriptor and checks its digest.
func blob(t *testing.T, dir string, d v1.Descriptor) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, v1.ImageBlobsDir, string(d.Digest.Algorithm()), d.Digest.Encoded()))
	if err != nil || digest.FromBytes(content) != d.Digest || int64(len(content)) != d.Size {
		t.Fatalf("%s: %v", d.Digest, err)
	}
	return content
}

func decode(t *testing.T, text []byte, into any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	must.Succeed(t, d.Decode(into))
}

func extract(t *testing.T, archive io.Reader, dir string) {
	t.Helper()
	for r := tar.NewReader(archive); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		must.Succeed(t, err)
		path := filepath.Join(dir, header.Name)
		if header.Typeflag == tar.TypeDir {
			must.Succeed(t, os.Mkdir(path, 0o755))
		} else {
			content, err := io.ReadAll(r)
			must.Succeed(t, err)
			must.Succeed(t, os.WriteFile(path, content, 0o600))
		}
		must.Succeed(t, os.Chmod(path, header.FileInfo().Mode()))
	}
}
