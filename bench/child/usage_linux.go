package child

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CPU returns the processor time that processes have used, by the kernel's clock of each.
func CPU(pids ...int) (sum time.Duration, err error) {
	for _, pid := range pids {
		const scheduler = 2 // the clock of a process with this id: see clock_getcpuclockid(3)
		var at unix.Timespec
		if err := unix.ClockGettime(int32(^pid<<3|scheduler), &at); err != nil {
			return 0, fmt.Errorf("cannot read the processor time of process %d: %w", pid, err)
		}
		sum += time.Duration(at.Nano())
	}
	return sum, nil
}

// Memory is the resident memory of a process, in bytes.
type Memory struct {
	All float64 // with the pages of the program that are in use
	Own float64 // what the process has allocated
}

// ResidentMemory returns the resident memory of processes together. The kernel's buffers of sockets are not part of it.
func ResidentMemory(pids ...int) (sum Memory, err error) {
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return Memory{}, fmt.Errorf("cannot read the memory of a process: %w", err)
		}
		sum.All += statusField(text, "VmRSS:")
		sum.Own += statusField(text, "RssAnon:")
	}
	return sum, nil
}

func statusField(text []byte, name string) float64 {
	_, rest, _ := strings.Cut(string(text), name)
	rest, _, _ = strings.Cut(strings.TrimSpace(rest), " ")
	kib, _ := strconv.ParseFloat(rest, 64)
	return kib * 1024
}

// Children returns the ids of the processes that a process has started.
func Children(pid int) (pids []int, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", pid))
	if err != nil {
		return nil, fmt.Errorf("cannot find the children of a process: %w", err)
	}
	for field := range strings.FieldsSeq(string(text)) {
		child, err := strconv.Atoi(field)
		if err != nil {
			return nil, err
		}
		pids = append(pids, child)
	}
	return pids, nil
}
