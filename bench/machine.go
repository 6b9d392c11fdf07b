package bench

import (
	"os"
	"runtime"
	"strings"
)

// machine describes where this runs.
func machine(program string) Machine {
	return Machine{Cores: runtime.NumCPU(), CPU: cpuModel(), OS: runtime.GOOS + "/" + runtime.GOARCH,
		Go: runtime.Version(), Program: program}
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
