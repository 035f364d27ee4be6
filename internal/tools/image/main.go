// Command image writes leaderrun's container image, for several platforms at once, as an
// archive in the OCI image layout, which crane, skopeo, podman and docker read. It contains
// only the program, Mozilla's certificate authorities and an empty /tmp, so there is no base
// image to update, and no builder is needed.
//
// It guarantees the same bytes for the same programs, version and SOURCE_DATE_EPOCH.
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/opencontainers/image-spec/specs-go/v1"
)

func main() {
	const needed = 5
	if len(os.Args) < needed {
		fmt.Fprintln(os.Stderr, "usage: SOURCE_DATE_EPOCH=SECONDS image FILE VERSION REVISION SYSTEM/MACHINE=PROGRAM...")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2], os.Args[3], os.Args[4:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// write writes the archive. programs have the form SYSTEM/MACHINE=FILE.
func write(path, version, revision string, programs []string) (err error) {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	created := time.Unix(seconds, 0).UTC()
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if closed := file.Close(); err == nil {
			err = closed
		}
	}()
	l := newLayout(file, created)
	var images []v1.Descriptor
	for _, named := range programs {
		target, name, _ := strings.Cut(named, "=")
		program, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		images = append(images, l.image(platform(target), labels(version, revision), program))
	}
	return l.close(version, images)
}

// platform returns SYSTEM/MACHINE as a platform of images.
func platform(target string) v1.Platform {
	system, machine, _ := strings.Cut(target, "/")
	return v1.Platform{OS: system, Architecture: machine}
}

func labels(version, revision string) map[string]string {
	return map[string]string{
		v1.AnnotationTitle:       "leaderrun",
		v1.AnnotationDescription: "run a command only while this host leads",
		v1.AnnotationSource:      "https://github.com/leaderrun/leaderrun",
		v1.AnnotationLicenses:    "MIT",
		v1.AnnotationVersion:     version,
		v1.AnnotationRevision:    revision,
	}
}
