package onebox_test

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"colonnade/internal/etcdtest"
	"colonnade/internal/testkit"
)

// BenchmarkServe compares one process for one colo with an entry and a colo server, with a bare proxy and, if it is installed, with nginx, in
// turns and in one run. Each is processes of its own, so that their processor time is known apart from that of the clients and the engine. The marks: a plain request costs at most 0.6 of
// what it costs entry and colo server together (serve/fleet), and a chunk of a stream at most 1.2 times what it costs nginx (serve/nginx).
func BenchmarkServe(b *testing.B) {
	engine := benchEngine(b)
	all := []gateway{startServeGateway(b, engine), startFleetGateway(b, engine), startBare(b, engine)}
	if nginx, installed := startNginx(b, engine); installed {
		all = append(all, nginx)
	} else {
		b.Log("nginx is not installed, so it is not measured")
	}
	b.Run("plain", func(b *testing.B) { compare(b, all, benchBlock, "req", plainRequests(b)) })
	b.Run("chunk", func(b *testing.B) { compare(b, all, benchStreams*benchChunks, "chunk", streams(b)) })
}

// compare lets gateways work in turns, every second round in the reverse order. It reports the processor time of each for a unit of work, and the
// ratios of the first to the others: of all rounds together; of the least processor time of one round, which other processes disturb least (min);
// and of the whole path, with the clients and the engine (path).
func compare(b *testing.B, all []gateway, units int, unit string, work func(base string)) {
	used, least, ends := make([]time.Duration, len(all)), make([]time.Duration, len(all)), make([]time.Duration, len(all))
	for i, g := range all {
		work(g.base)
		least[i] = math.MaxInt64
	}
	rounds := 0
	for b.Loop() {
		for turn := range all {
			i := turn
			if rounds%2 == 1 {
				i = len(all) - 1 - turn
			}
			before, beforeEnds := all[i].cpu(b), cpu()
			work(all[i].base)
			spent := all[i].cpu(b) - before
			ends[i] += cpu() - beforeEnds
			used[i] += spent
			least[i] = min(least[i], spent)
		}
		rounds++
	}
	b.ReportMetric(0, "ns/op")
	for i, g := range all {
		b.ReportMetric(float64(used[i].Nanoseconds())/1000/float64(rounds*units), g.name+"-cpu-µs/"+unit)
		if i > 0 {
			b.ReportMetric(float64(used[0])/float64(used[i]), all[0].name+"/"+g.name)
			b.ReportMetric(float64(least[0])/float64(least[i]), all[0].name+"/"+g.name+"-min")
			b.ReportMetric(float64(used[0]+ends[0])/float64(used[i]+ends[i]), all[0].name+"/"+g.name+"-path")
		}
	}
}

// cpu returns the processor time that the processes have used.
func (g gateway) cpu(b *testing.B) (sum time.Duration) {
	b.Helper()
	for _, pid := range g.pids {
		const scheduler = 2 // the kernel's clock of a process with this id: see clock_getcpuclockid(3)
		var at unix.Timespec
		if err := unix.ClockGettime(int32(^pid<<3|scheduler), &at); err != nil {
			b.Fatalf("cannot read the processor time of %s: %v", g.name, err)
		}
		sum += time.Duration(at.Nano())
	}
	return sum
}

// BenchmarkServeStart is how long one process takes from its start to its first answer, and what it needs at rest: memory, and the size of the binary
// without what debuggers need.
func BenchmarkServeStart(b *testing.B) {
	engine, program := benchEngine(b), testkit.Binary(b, "colonnade")
	file := filepath.Join(b.TempDir(), "documents.yaml")
	if err := os.WriteFile(file, []byte(strings.TrimPrefix(benchDocuments(engine), "---\n")), 0o600); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		address := etcdtest.FreeAddress(b)
		p := testkit.Start(b, exec.Command(program, "serve", "-config", file, "-open", "-listen", address, "-admin", "127.0.0.1:0", "-data-dir", b.TempDir()))
		awaitGateway(b, "serve", address, p.PID())
		b.StopTimer()
		b.ReportMetric(residentMiB(b, p.PID()), "rest-MiB")
		_ = p.Stop(unix.SIGKILL)
		b.StartTimer()
	}
	info, err := os.Stat(program)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(info.Size())/(1<<20), "binary-MiB")
}

// residentMiB returns the resident memory of a process, in MiB.
func residentMiB(b *testing.B, pid int) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	var kib float64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		b.Fatal(err)
	}
	return kib / 1024
}
