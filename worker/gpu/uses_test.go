package gpu

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func of[T any](figure T) *T { return &figure }

// machine has a whole GPU, a divided one, and another one.
func machine() []GPU {
	whole := func(pid int, memory uint64) Process {
		return Process{PID: pid, Memory: &memory, GPUInstance: NoInstance, Compute: NoInstance}
	}
	return []GPU{
		{Index: 0, UUID: "GPU-aa00", Processes: []Process{whole(11, 5), whole(12, 6), whole(90, 7)}},
		{Index: 1, UUID: "GPU-ab00", MIG: true, Instances: []Instance{{UUID: "MIG-c1", GPUInstance: 1}, {UUID: "MIG-c2", GPUInstance: 2}},
			Processes: []Process{{PID: 11, Memory: of[uint64](8), GPUInstance: 2, Compute: 0}}},
		{Index: 2, UUID: "GPU-ab11"},
	}
}

func uuids(uses []Use) string {
	var all []string
	for _, u := range uses {
		all = append(all, u.UUID)
	}
	return strings.Join(all, " ")
}

func TestVisible(t *testing.T) {
	f := func(value, want string) {
		t.Helper()
		if got := uuids(Visible(value, machine())); got != want {
			t.Errorf("%q: %q, want %q", value, got, want)
		}
	}
	f("0", "GPU-aa00")
	f("2,0", "GPU-ab11 GPU-aa00")
	f(" 0 , 2 ", "GPU-aa00 GPU-ab11")
	f("0,0", "GPU-aa00")
	f("", "")
	f("-1", "")
	f("0,-1,2", "GPU-aa00")
	f("0,7,2", "GPU-aa00")
	f("NoDevFiles", "")
	f("GPU-aa00", "GPU-aa00")
	f("GPU-aa", "GPU-aa00")
	f("GPU-ab", "") // two begin so
	f("GPU-", "")
	f("GPU-ab1,0", "GPU-ab11 GPU-aa00")
	f("MIG-c2", "MIG-c2")
	f("MIG-c", "")
	f("1", "MIG-c1 MIG-c2")
	f("GPU-ab0", "MIG-c1 MIG-c2")
}

// proc makes a directory of processes: an engine (10) with a child (11), one of its group whose parent has ended (12), one of another
// group and session below it (13), and one of others (90).
func proc(t *testing.T, namespace string, environ ...string) Proc {
	t.Helper()
	dir := t.TempDir()
	for pid, stat := range map[int]string{
		1: "(init) S 0 1 1", 10: "(vllm serve) S 5 10 5", 11: "(a) b) S 10 10 5", 12: "(VLLM::EngineCor) S 1 10 5", 13: "(x) S 11 13 13", 90: "(other) S 1 90 90",
	} {
		write(t, filepath.Join(dir, strconv.Itoa(pid), "stat"), strconv.Itoa(pid)+" "+stat+" 0 -1 4194560\n")
	}
	if len(environ) > 0 {
		write(t, filepath.Join(dir, "10/environ"), strings.Join(environ, "\x00")+"\x00")
	}
	write(t, filepath.Join(dir, "self/ns/x"), "")
	if err := os.Symlink(namespace, filepath.Join(dir, "self/ns/pid")); err != nil {
		t.Fatal(err)
	}
	return Proc(dir)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

const container = "pid:[4026532621]"

func TestUses(t *testing.T) {
	f := func(p Proc, engine int, want string) {
		t.Helper()
		if got := uuids(p.Uses(engine, machine())); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	f(proc(t, hostNamespace), 10, "GPU-aa00 MIG-c2")
	f(proc(t, hostNamespace, "CUDA_VISIBLE_DEVICES=2"), 10, "GPU-aa00 MIG-c2") // the driver knows better
	f(proc(t, hostNamespace), 90, "GPU-aa00")
	f(proc(t, hostNamespace), 0, "")
	f(proc(t, hostNamespace), 13, "")
	f(proc(t, hostNamespace), 777, "") // it has ended
	// In a container, the numbers of the driver's lists are of other processes.
	f(proc(t, container), 10, "GPU-aa00 MIG-c1 MIG-c2 GPU-ab11")
	f(proc(t, container, "PATH=/bin", "CUDA_VISIBLE_DEVICES=2", "X=y"), 10, "GPU-ab11")
	f(proc(t, container, "CUDA_VISIBLE_DEVICES="), 10, "")
	f("/nowhere", 10, "GPU-aa00 MIG-c1 MIG-c2 GPU-ab11")

	uses := proc(t, hostNamespace).Uses(10, machine())
	if want := []Use{{UUID: "GPU-aa00", GPU: "GPU-aa00", Memory: 11}, {UUID: "MIG-c2", GPU: "GPU-ab00", Memory: 8}}; !slices.Equal(uses, want) {
		t.Errorf("%+v", uses)
	}
}

func TestFamily(t *testing.T) {
	got := proc(t, hostNamespace).Family(10, []int{1, 10, 11, 12, 13, 90, 777})
	for pid, want := range map[int]bool{1: false, 10: true, 11: true, 12: true, 13: true, 90: false, 777: false} {
		if got[pid] != want {
			t.Errorf("process %d: %v", pid, got[pid])
		}
	}
}

func TestParseStat(t *testing.T) {
	f := func(stat string, want process, ok bool) {
		t.Helper()
		if got, err := parseStat([]byte(stat)); got != want || (err == nil) != ok {
			t.Errorf("%q: %+v, %v", stat, got, err)
		}
	}
	f("12 (a b) S 3 4 5 0", process{12, 3, 4, 5}, true)
	f("12 () ) (x)) S 3 4 5 0\n", process{12, 3, 4, 5}, true)
	f("12 (a) S 3 4", process{}, false)
	f("12 (a) S x 4 5", process{}, false)
	f("12", process{}, false)
	f("", process{}, false)
}

func FuzzParseStat(f *testing.F) {
	for _, s := range []string{"12 (a b) S 3 4 5 0", "12 () ) (x)) S 3 4 5 0\n", "12 (a", ")", "", "1 ) ) ) S 1 2 3"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, stat []byte) {
		if got, err := parseStat(stat); err != nil && got.group != 0 && got.session != 0 {
			t.Errorf("%q: %+v and %v", stat, got, err)
		}
	})
}

func TestListening(t *testing.T) {
	const head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
	const listens = "   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 123456 1 0000000000000000 100 0 0 10 0\n"
	for line, want := range map[string]string{head: "", listens: "123456", strings.Replace(listens, " 0A ", " 01 ", 1): "", "": "", "a:b c:d 0A": ""} {
		if inode, ok := listening(line, 8000); (ok && inode != want) || ok != (want != "") {
			t.Errorf("%q: %q %v", line, inode, ok)
		}
	}
	if _, ok := listening(listens, 8001); ok {
		t.Error("another port")
	}
}
