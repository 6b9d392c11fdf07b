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

// leakTime bounds how long Run waits for what ends after the tests. fasthttp keeps a server that has ended for ten seconds, with all that it
// refers to: its log is that of a test, which refers to all other tests.
const leakTime = 20 * time.Second

// Run returns the exit code of the process.
func (w LeakCheck) Run() int {
	files, heap := openDescriptors(), liveHeap()
	code := w.Tests.Run()
	deadline := time.Now().Add(leakTime)
	for openDescriptors() > files+slackDescriptors {
		if time.Now().After(deadline) {
			fmt.Fprintf(os.Stderr, "after all tests: %d file descriptors, before %d\n", openDescriptors(), files)
			code = max(code, 1)
			break
		}
		time.Sleep(pollInterval)
	}
	for now, exceeds := heapExceeds(heap + defaultMemoryBytes); exceeds; now, exceeds = heapExceeds(heap + defaultMemoryBytes) {
		if time.Now().After(deadline) {
			fmt.Fprintf(os.Stderr, "after all tests: the live heap is %d bytes, before %d, allowed growth %d\n",
				now, heap, defaultMemoryBytes)
			code = max(code, 1)
			break
		}
		time.Sleep(10 * pollInterval) // each look collects garbage
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
