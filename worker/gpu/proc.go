package gpu

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Proc is the directory of processes of Linux, /proc. Elsewhere it is empty, and no process is known.
type Proc string

// hostNamespace is the namespace of PIDs in which the driver numbers processes: PROC_PID_INIT_INO of include/linux/proc_ns.h, which is part of
// the kernel's interface.
const hostNamespace = "pid:[4026531836]"

// maxDepth bounds the ancestors that are looked at.
const maxDepth = 64

// HasHostPIDs reports whether this process sees processes by the numbers that the driver uses. In most containers it does not.
func (p Proc) HasHostPIDs() bool {
	namespace, err := os.Readlink(filepath.Join(string(p), "self/ns/pid"))
	return err == nil && namespace == hostNamespace
}

// process is what Family needs of a process.
type process struct{ pid, parent, group, session int }

// Family reports which of some processes belong to an engine: it is the engine's process, one that descends from it, or one of its process
// group, which also has those whose parents have ended.
func (p Proc) Family(engine int, pids []int) map[int]bool {
	found := map[int]bool{}
	leader, err := p.read(engine)
	if err != nil {
		return found
	}
	for _, pid := range pids {
		if p.belongs(pid, leader) {
			found[pid] = true
		}
	}
	return found
}

func (p Proc) belongs(pid int, engine process) bool {
	for range maxDepth {
		if pid == engine.pid {
			return true
		}
		if pid <= 1 {
			return false
		}
		at, err := p.read(pid)
		if err != nil {
			return false
		}
		if at.group == engine.group && at.session == engine.session {
			return true
		}
		pid = at.parent
	}
	return false
}

func (p Proc) read(pid int) (process, error) {
	stat, err := os.ReadFile(filepath.Join(string(p), strconv.Itoa(pid), "stat"))
	if err != nil {
		return process{}, err
	}
	return parseStat(stat)
}

// parseStat reads /proc/PID/stat: the PID, the name of the program in parentheses, which may have any character, and numbers.
func parseStat(stat []byte) (process, error) {
	number, _, _ := bytes.Cut(stat, []byte(" "))
	_, rest, named := strings.Cut(string(stat[max(0, bytes.LastIndexByte(stat, ')')):]), ") ")
	fields := strings.Fields(rest) // the state, the parent, the process group, the session
	pid, err := strconv.Atoi(string(number))
	if !named || err != nil || len(fields) < 4 {
		return process{}, fmt.Errorf("%.100q is no process's stat", stat)
	}
	found := process{pid: pid}
	for i, to := range []*int{&found.parent, &found.group, &found.session} {
		if *to, err = strconv.Atoi(fields[1+i]); err != nil {
			return process{}, fmt.Errorf("%.100q is no process's stat", stat)
		}
	}
	return found, nil
}

// VisibleDevices returns CUDA_VISIBLE_DEVICES of a process as it was started, and whether it has it. Of a process of another user it knows
// nothing.
func (p Proc) VisibleDevices(pid int) (value string, ok bool) {
	environ, err := os.ReadFile(filepath.Join(string(p), strconv.Itoa(pid), "environ"))
	if err != nil {
		return "", false
	}
	for variable := range bytes.SplitSeq(environ, []byte{0}) {
		if value, ok := bytes.CutPrefix(variable, []byte("CUDA_VISIBLE_DEVICES=")); ok {
			return string(value), true
		}
	}
	return "", false
}

// Listener returns the process that listens at a TCP port of this machine, of those that this user may look at.
func (p Proc) Listener(port int) (pid int, ok bool) {
	sockets := map[string]bool{}
	for _, table := range []string{"net/tcp", "net/tcp6"} {
		text, err := os.ReadFile(filepath.Join(string(p), table))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if inode, ok := listening(line, port); ok {
				sockets["socket:["+inode+"]"] = true
			}
		}
	}
	if len(sockets) == 0 {
		return 0, false
	}
	names, _ := filepath.Glob(filepath.Join(string(p), "[0-9]*"))
	for _, dir := range names {
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && hasSocket(dir, sockets) {
			return pid, true
		}
	}
	return 0, false
}

// listening returns the inode of a line of /proc/net/tcp if its socket listens at the port.
func listening(line string, port int) (inode string, ok bool) {
	fields := strings.Fields(line)
	const listens = "0A" // TCP_LISTEN
	if len(fields) < 10 || fields[3] != listens {
		return "", false
	}
	_, local, _ := strings.Cut(fields[1], ":")
	n, err := strconv.ParseUint(local, 16, 16)
	return fields[9], err == nil && int(n) == port
}

func hasSocket(dir string, sockets map[string]bool) bool {
	open, err := os.ReadDir(filepath.Join(dir, "fd"))
	if err != nil {
		return false // it has ended, or is another user's
	}
	for _, fd := range open {
		if to, err := os.Readlink(filepath.Join(dir, "fd", fd.Name())); err == nil && sockets[to] {
			return true
		}
	}
	return false
}
