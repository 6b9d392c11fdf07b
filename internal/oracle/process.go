package oracle

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// census is what a process, or a test, has.
type census struct {
	goroutines, descriptors int
	memory                  int64
}

// LabelGoroutines makes the goroutines that the calling one starts from now on, and those that they start, the test's own. A test
// beside which others run calls it before it starts anything.
func LabelGoroutines(t testing.TB) {
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels(label, t.Name())))
}

const label = "test"

// count looks at the whole process, or at what is the test's own in it.
func (o *Oracle) count(t testing.TB) (c census, profile string) {
	t.Helper()
	if !o.config.Shared {
		return census{goroutines: runtime.NumGoroutine(), descriptors: len(openFiles(t))}, ""
	}
	c.goroutines, profile = ownGoroutines(t.Name())
	c.descriptors = o.ownDescriptors(t)
	return c, profile
}

// ownGoroutines counts those that a test has marked.
func ownGoroutines(test string) (n int, profile string) {
	var own strings.Builder
	marked := fmt.Sprintf("\n# labels: {%q:%q}\n", label, test)
	for _, stack := range strings.Split(goroutineProfile(), "\n\n") {
		if !strings.Contains(stack, marked) {
			continue
		}
		many, _, _ := strings.Cut(stack[strings.LastIndexByte(stack[:strings.Index(stack, " @")], '\n')+1:], " ")
		if k, err := strconv.Atoi(many); err == nil {
			n += k
			own.WriteString(stack + "\n\n")
		}
	}
	return n, own.String()
}

func goroutineProfile() string {
	var text bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&text, 1); err != nil {
		return err.Error()
	}
	return text.String()
}

// ownDescriptors counts connections, by the addresses of which they have one, and files, by where they are.
func (o *Oracle) ownDescriptors(t testing.TB) (n int) {
	t.Helper()
	ports := map[int]bool{}
	for _, address := range o.config.Addresses {
		if _, port, err := net.SplitHostPort(address); err == nil { // else nothing of this process is there
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

// portOf returns 0 for what has none.
func portOf(a unix.Sockaddr, _ error) int {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return a.Port
	case *unix.SockaddrInet6:
		return a.Port
	}
	return 0
}

// openFiles are the descriptors of the process, and where each leads.
func openFiles(t testing.TB) map[int]string {
	t.Helper()
	const dir = "/proc/self/fd/"
	open, err := os.ReadDir(dir)
	if err != nil {
		t.Fatalf("cannot count file descriptors: %v", err)
	}
	all := map[int]string{}
	for _, entry := range open {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil {
			t.Fatalf("cannot count file descriptors: %v", err)
		}
		all[fd], _ = os.Readlink(dir + entry.Name()) // it may be closed by now, as ReadDir's own is
	}
	return all
}

// grownBeyond says whether the live heap is larger than most. What was not collected yet may tell without a collection.
func grownBeyond(most int64) (heap int64, beyond bool) {
	if heap = heapNow(); heap <= most {
		return heap, false
	}
	heap = liveHeap()
	return heap, heap > most
}

func liveHeap() int64 {
	runtime.GC()
	runtime.GC() // what a sync.Pool held survives one
	return heapNow()
}

func heapNow() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
