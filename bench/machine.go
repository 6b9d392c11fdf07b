package bench

import (
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// thisMachine describes the machine and the program.
func thisMachine(program string) machineInfo {
	return machineInfo{Cores: runtime.NumCPU(), CPU: cpuModel(), OS: runtime.GOOS + "/" + runtime.GOARCH,
		Go: runtime.Version(), Program: program, Commit: commit()}
}

// commit is what this program was built from, if the go command has stamped it; make has it do so.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	revision, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+dirty"
		}
	}
	if revision == "" {
		return ""
	}
	return revision + dirty
}

// cpuModel is what Linux calls the processor; empty elsewhere.
func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if name, model, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(model)
		}
	}
	return ""
}
