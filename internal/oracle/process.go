package oracle

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// resources are those of a process, or of one test.
type resources struct {
	goroutines, descriptors int
	stacks                  map[string]int // of the goroutines, with how many have each
	memory                  int64
}

// LabelGoroutines labels the calling goroutine, and with it all that it starts from now on, as the test's own. A test that
// runs beside others calls it first.
func LabelGoroutines(t testing.TB) {
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels(label, t.Name())))
}

const label = "test"

// count counts the resources of the whole process, or of the test if other tests share the process.
func (o *Oracle) count(t testing.TB) resources {
	t.Helper()
	if !o.config.Shared {
		return resources{goroutines: runtime.NumGoroutine(), stacks: goroutineStacks(""), descriptors: len(openFiles(t))}
	}
	r := resources{stacks: goroutineStacks(t.Name()), descriptors: o.ownDescriptors(t)}
	for _, n := range r.stacks {
		r.goroutines += n
	}
	return r
}

// goroutineStacks returns the stacks of the goroutines that a test has labelled, and how many goroutines have each; of all
// goroutines without the name of a test.
func goroutineStacks(test string) map[string]int {
	stacks := map[string]int{}
	labelled := fmt.Sprintf("\n# labels: {%q:%q}\n", label, test)
	_, profile, _ := strings.Cut(goroutineProfile(), "\n") // the first line is the total
	for _, text := range strings.Split(profile, "\n\n") {
		number, stack, _ := strings.Cut(text, " ")
		if n, err := strconv.Atoi(number); err == nil && (test == "" || strings.Contains(stack, labelled)) {
			stacks[stack] += n
		}
	}
	return stacks
}

// grown lists the stacks that more goroutines have now than before, those that grew most first.
func grown(before, now map[string]int) string {
	more := func(stack string) int { return now[stack] - before[stack] }
	var text strings.Builder
	for _, stack := range slices.SortedFunc(maps.Keys(now), func(a, b string) int {
		return cmp.Or(cmp.Compare(more(b), more(a)), strings.Compare(a, b))
	}) {
		if more(stack) > 0 {
			fmt.Fprintf(&text, "%d more %s\n\n", more(stack), stack)
		}
	}
	return text.String()
}

func goroutineProfile() string {
	var text bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&text, 1); err != nil {
		return err.Error()
	}
	return text.String()
}

// ownDescriptors counts connections from and to Addresses, and files below EventDirs.
func (o *Oracle) ownDescriptors(t testing.TB) (n int) {
	t.Helper()
	ports := map[int]bool{}
	for _, address := range o.config.Addresses {
		if _, port, err := net.SplitHostPort(address); err == nil { // otherwise no server of this process has it
			number, _ := strconv.Atoi(port)
			ports[number] = number != 0
		}
	}
	for fd, path := range openFiles(t) {
		if ports[portOf(unix.Getsockname(fd))] || ports[portOf(unix.Getpeername(fd))] {
			n++
		}
		for _, dir := range o.config.EventDirs {
			if strings.HasPrefix(path, dir+"/") {
				n++
			}
		}
	}
	return n
}

// portOf returns 0 for an address without a port.
func portOf(a unix.Sockaddr, _ error) int {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return a.Port
	case *unix.SockaddrInet6:
		return a.Port
	}
	return 0
}

// openFiles returns the descriptors of the process with the paths that they refer to, as far as the kernel says those: only Linux does.
func openFiles(t testing.TB) map[int]string {
	t.Helper()
	open, err := descriptors()
	if err != nil {
		t.Fatalf("cannot count file descriptors: %v", err)
	}
	all := map[int]string{}
	for _, name := range open {
		fd, err := strconv.Atoi(name)
		if err != nil {
			t.Fatalf("cannot count file descriptors: %v", err)
		}
		all[fd], _ = os.Readlink(descriptorDir + "/" + name) // an error means that it is closed by now, like that of the directory
	}
	return all
}

// descriptorDir has a file for each descriptor of the process; on Linux it leads to /proc/self/fd.
const descriptorDir = "/dev/fd"

// descriptors returns the numbers of the process's descriptors, with that of the directory.
func descriptors() ([]string, error) {
	dir, err := os.Open(descriptorDir)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.Readdirnames(0) // ReadDir would ask for the state of each, which not every descriptor of macOS has
}

// heapExceeds reports whether the live heap is larger than limit. It collects garbage only if the heap is larger with it.
func heapExceeds(limit int64) (heap int64, exceeds bool) {
	if heap = heapBytes(); heap <= limit {
		return heap, false
	}
	heap = liveHeap()
	return heap, heap > limit
}

func liveHeap() int64 {
	runtime.GC()
	runtime.GC() // the contents of a sync.Pool survive one collection
	return heapBytes()
}

func heapBytes() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
