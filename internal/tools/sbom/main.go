// Command sbom prints the software bill of materials of a Go program, as CycloneDX JSON: the
// program, the modules linked into it, and Go's standard library, which scanners look for
// first. It reads all this from the program, so the same program has the same bill.
package main

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: sbom VERSION PROGRAM")
		os.Exit(2)
	}
	info, err := buildinfo.ReadFile(os.Args[2])
	if err == nil {
		err = cdx.NewBOMEncoder(os.Stdout, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bill(info, os.Args[1]), cdx.SpecVersion1_6)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// bill returns the bill of materials of a program.
func bill(info *debug.BuildInfo, version string) *cdx.BOM {
	program := module(info.Main.Path, "v"+version)
	program.Type = cdx.ComponentTypeApplication
	properties := []cdx.Property{}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "GOOS", "GOARCH", "CGO_ENABLED", "vcs.revision":
			properties = append(properties, cdx.Property{Name: "golang:" + setting.Key, Value: setting.Value})
		}
	}
	program.Properties = &properties

	parts := []cdx.Component{module("stdlib", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, m := range info.Deps {
		for m.Replace != nil {
			m = m.Replace
		}
		parts = append(parts, module(m.Path, m.Version))
	}
	needs := make([]string, 0, len(parts))
	for _, part := range parts {
		needs = append(needs, part.BOMRef)
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &program}
	bom.Components = &parts
	bom.Dependencies = &[]cdx.Dependency{{Ref: program.BOMRef, Dependencies: &needs}}
	return bom
}

// module returns a component for a Go module, with its package URL.
func module(path, version string) cdx.Component {
	url := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return cdx.Component{Type: cdx.ComponentTypeLibrary, BOMRef: url, Name: path, Version: version, PackageURL: url}
}
