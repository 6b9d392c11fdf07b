package node

import (
	"runtime/debug"

	"colonnade/analytics/metrics"
)

// Version returns the version of the software, as the go command has recorded it in the binary.
func Version() string { return build().Version }

// build returns what the go command has recorded in the binary.
func build() metrics.Build {
	b := metrics.Build{Version: "(devel)"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Go = info.GoVersion
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.Revision = s.Value
		}
	}
	return b
}
