package onebox_test

import (
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"colonnade/onebox"
)

// A fleet that runs out of file descriptors lets nobody in meanwhile. What runs goes on, and when there are some again so
// does everything else.
func TestFilesRunOut(t *testing.T) {
	f := startFleet(t, onebox.Config{Colos: []string{"ams"}, Engine: steady(4)}, "")
	f.watch(1)
	w := f.begin(chatBody(100, true))
	w.readUntil("data:", 1)
	lowest, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	next := uint64(lowest.Fd())
	lowest.Close()
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	small := old
	small.Cur = next + 8 // each of the crowd takes two
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &small); err != nil {
		t.Skip(err)
	}
	restore := func() { _ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old) }
	defer restore()
	var crowd []net.Conn
	for range 100 {
		c, err := net.Dial("tcp", f.Entry.Address)
		if err != nil {
			break
		}
		crowd = append(crowd, c)
	}
	if len(crowd) == 100 {
		t.Error("there was no shortage")
	}
	time.Sleep(300 * time.Millisecond)
	w.readUntil("data:", 5)
	restore()
	for _, c := range crowd {
		c.Close()
	}
	if rest, err := w.readAll(); err != nil || !strings.Contains(rest, "[DONE]") {
		t.Errorf("the stream that ran was cut: %v after %.200q", err, rest[max(0, len(rest)-200):])
	}
	if a := f.ask(chatBody(3, true)); a.Status != 200 || a.Err != nil {
		t.Errorf("afterwards: %d, %v", a.Status, a.Err)
	}
}
