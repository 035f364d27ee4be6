// Command sbom prints what a Go program was built from, as a software bill of
// materials in CycloneDX's JSON: the program, the modules that are linked into it, and
// Go's standard library, which scanners look for first. All of it is in the program
// itself, so the same program has the same bill.
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

// bill lists what a program of that version was built from.
func bill(info *debug.BuildInfo, version string) *cdx.BOM {
	program := module(info.Main.Path, "v"+version)
	program.Type = cdx.ComponentTypeApplication
	properties := []cdx.Property{}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "GOOS", "GOARCH", "GOARM", "CGO_ENABLED", "vcs.revision":
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

// module is one Go module by its package URL.
func module(path, version string) cdx.Component {
	url := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return cdx.Component{Type: cdx.ComponentTypeLibrary, BOMRef: url, Name: path, Version: version, PackageURL: url}
}
