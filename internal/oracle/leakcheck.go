package oracle

import (
	"fmt"
	"os"

	"time"

	"go.uber.org/goleak"
)

// LeakCheck runs the tests of a package, like testing.M, and fails if the process has more file descriptors or a larger heap
// afterwards. While several tests run, neither can be attributed to one.
type LeakCheck struct {
	Tests goleak.TestingM
}

// Run returns the exit code of the process.
func (w LeakCheck) Run() int {
	files, heap := openDescriptors(), liveHeap()
	code := w.Tests.Run()
	for deadline := time.Now().Add(settleTime * timeScale()); openDescriptors() > files+slackDescriptors; time.Sleep(pollInterval) {
		if time.Now().After(deadline) {
			fmt.Fprintf(os.Stderr, "after all tests: %d file descriptors, before %d\n", openDescriptors(), files)
			code = max(code, 1)
			break
		}
	}
	if now, exceeds := heapExceeds(heap + defaultMemoryBytes); exceeds {
		fmt.Fprintf(os.Stderr, "after all tests: the live heap is %d bytes, before %d, allowed growth %d\n",
			now, heap, defaultMemoryBytes)
		code = max(code, 1)
	}
	return code
}

func openDescriptors() int {
	open, err := descriptors()
	if err != nil {
		panic("oracle: cannot count file descriptors: " + err.Error())
	}
	return len(open)
}
