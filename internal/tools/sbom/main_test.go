package main

import (
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"github.com/leaderrun/leaderrun/internal/test/must"
)

func TestBill(t *testing.T) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		t.Fatal("no build information")
	}
	info.Deps = []*debug.Module{
		{Path: "example.org/a", Version: "v1.2.3"},
		{Path: "example.org/b", Version: "v2.0.0+incompatible", Replace: &debug.Module{Path: "example.org/c", Version: "v3.0.0+incompatible"}},
	}
	var text strings.Builder
	must.Succeed(t, cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON).EncodeVersion(bill(info, "1.0.0"), cdx.SpecVersion1_6))
	var bom cdx.BOM
	must.Succeed(t, cdx.NewBOMDecoder(strings.NewReader(text.String()), cdx.BOMFileFormatJSON).Decode(&bom))
	var urls []string
	for _, part := range *bom.Components {
		urls = append(urls, part.PackageURL)
	}
	want := []string{"pkg:golang/stdlib@" + strings.TrimPrefix(runtime.Version(), "go"), "pkg:golang/example.org/a@v1.2.3", "pkg:golang/example.org/c@v3.0.0%2Bincompatible"}
	if !slices.Equal(urls, want) || bom.Metadata.Component.PackageURL != "pkg:golang/github.com/leaderrun/leaderrun@v1.0.0" {
		t.Errorf("%q of %s, want %q", urls, bom.Metadata.Component.PackageURL, want)
	}
	if needs := *(*bom.Dependencies)[0].Dependencies; !slices.Equal(needs, want) {
		t.Errorf("it needs %q", needs)
	}
}
