package cmd_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"colonnade/internal/etcdtest"
	"colonnade/internal/testkit"
)

// serveEngine starts colonnade serve before an engine that answers at once, and returns its address.
func serveEngine(b *testing.B, engine string) (cmd *exec.Cmd, served *testkit.Process, address string) {
	b.Helper()
	address = etcdtest.FreeAddress(b)
	cmd = exec.Command(testkit.Binary(b, "colonnade"), "serve", "-engine", "http://"+engine, "-listen", address, "-admin", "127.0.0.1:0")
	return cmd, testkit.Start(b, cmd), address
}

// awaitAnswer asks until an engine has answered.
func awaitAnswer(b *testing.B, address string) {
	b.Helper()
	const chat = `{"model":"tiny","max_tokens":1,"messages":[{"role":"user","content":"hello"}]}`
	for deadline := time.Now().Add(testkit.Timeout); ; time.Sleep(2 * time.Millisecond) {
		if status, _, _ := testkit.Post("http://"+address+"/v1/chat/completions", chat); status == http.StatusOK {
			return
		}
		if time.Now().After(deadline) {
			b.Fatal("no answer")
		}
	}
}

// residentKiB returns the memory that a process occupies, with the pages of its program.
func residentKiB(b *testing.B, pid int) float64 {
	b.Helper()
	out, err := exec.Command("ps", "-o", "rss=", "-p", fmt.Sprint(pid)).Output()
	if err != nil {
		b.Skip("ps does not show the memory of the process: ", err)
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// BenchmarkServeStart measures colonnade serve as an operator starts it, without configuration: the time from the start of the process to
// the first answer of the engine, and the size of the program.
func BenchmarkServeStart(b *testing.B) {
	engine := quickEngine(b)
	var starts time.Duration
	for b.Loop() {
		began := time.Now()
		_, served, address := serveEngine(b, engine)
		awaitAnswer(b, address)
		starts += time.Since(began)
		_ = served.Stop(syscall.SIGKILL)
	}
	b.ReportMetric(float64(starts.Milliseconds())/float64(b.N), "ms-to-first-answer")
	program, err := os.Stat(testkit.Binary(b, "colonnade"))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(program.Size())/(1<<20), "MiB-program")
}

// BenchmarkServeAtRest measures the memory of colonnade serve: after its first answer and some seconds without requests, and after a
// thousand requests and as many seconds.
func BenchmarkServeAtRest(b *testing.B) {
	const rest, requests = 3 * time.Second, 1000
	engine := quickEngine(b)
	var fresh, used float64
	for b.Loop() {
		cmd, served, address := serveEngine(b, engine)
		awaitAnswer(b, address)
		time.Sleep(rest)
		fresh += residentKiB(b, cmd.Process.Pid)
		for range requests {
			awaitAnswer(b, address)
		}
		time.Sleep(rest)
		used += residentKiB(b, cmd.Process.Pid)
		_ = served.Stop(syscall.SIGKILL)
	}
	b.ReportMetric(fresh/1024/float64(b.N), "MiB-at-rest")
	b.ReportMetric(used/1024/float64(b.N), "MiB-after-1000-requests")
}

// quickEngine starts an engine that answers at once.
func quickEngine(b *testing.B) (address string) {
	b.Helper()
	address = etcdtest.FreeAddress(b)
	testkit.Start(b, exec.Command(testkit.Binary(b, "colonnade"), "engine", "-listen", address, "-models", "tiny", "-slots", "16", "-ttft", "0s", "-itl", "0s"))
	testkit.WaitFor(b, "the engine", func() bool {
		status, _ := testkit.Get("http://" + address + "/stats")
		return status == http.StatusOK
	})
	return address
}
