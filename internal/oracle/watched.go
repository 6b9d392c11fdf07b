package oracle

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// LeakCheck runs tests, as testing.M does, and fails if the process has more file descriptors or memory afterwards: what
// cannot be told apart while several run.
type LeakCheck struct {
	Tests *testing.M
}

// Run returns what os.Exit is to be called with.
func (w LeakCheck) Run() int {
	files, heap := openNow(), liveHeap()
	code := w.Tests.Run()
	for deadline := time.Now().Add(quietTime * scale()); openNow() > files+slackDescriptors; time.Sleep(pollInterval) {
		if time.Now().After(deadline) {
			fmt.Fprintf(os.Stderr, "after all tests: %d file descriptors, were %d\n", openNow(), files)
			code = max(code, 1)
			break
		}
	}
	if now, beyond := grownBeyond(heap + defaultMemoryBytes); beyond {
		fmt.Fprintf(os.Stderr, "after all tests: the live heap is %d bytes, was %d, may grow by %d\n",
			now, heap, defaultMemoryBytes)
		code = max(code, 1)
	}
	return code
}

func openNow() int {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		panic("oracle: cannot count file descriptors: " + err.Error())
	}
	return len(open)
}
