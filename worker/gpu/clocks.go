package gpu

// clockReasons are the reasons why clocks are not higher, by the bits of nvmlClocksEventReasons:
// https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html
var clockReasons = []struct {
	bit  uint64
	name string
}{
	{0x1, "gpu_idle"},
	{0x2, "applications_clocks_setting"},
	{0x4, "sw_power_cap"},
	{0x8, "hw_slowdown"},
	{0x10, "sync_boost"},
	{0x20, "sw_thermal_slowdown"},
	{0x40, "hw_thermal_slowdown"},
	{0x80, "hw_power_brake_slowdown"},
	{0x100, "display_clock_setting"},
}

// ClockReasonNames returns the names of the reasons why the clocks of a GPU are not higher.
func ClockReasonNames(bits uint64) []string {
	var names []string
	for _, r := range clockReasons {
		if bits&r.bit != 0 {
			names = append(names, r.name)
		}
	}
	return names
}

// AllClockReasons returns the names of all reasons that are known.
func AllClockReasons() []string { return ClockReasonNames(^uint64(0)) }
