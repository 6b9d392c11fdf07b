package balance

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
)

// llmdProgram is where make bench-balance builds bench/llmd.
const llmdProgram = "../../bin/colonnade-bench-llmd"

// llmdBuilt reports whether the program is there.
func llmdBuilt(t *testing.T) bool {
	t.Helper()
	_, err := os.Stat(llmdProgram)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

// llm-d prefers the engine that it has sent a prompt to, but for those with a much shorter queue, and takes turns by chance elsewhere.
func TestLLMDChooses(t *testing.T) {
	if !llmdBuilt(t) {
		t.Skip(llmdProgram + " is not built: go -C bench/llmd build -o ../../bin/colonnade-bench-llmd .")
	}
	l := startLLMD(llmdProgram)
	defer l.stop()
	idle := llmdEndpoint{BlockTokens: 64, Blocks: 1000}
	engines := []llmdEndpoint{idle, idle, idle}
	for i := range engines {
		engines[i].Name = "engine-" + string(rune('a'+i))
	}
	choose := func(id, text string, engines ...llmdEndpoint) string {
		t.Helper()
		return engines[l.choose(&llmdCall{ID: id, Prompt: bytes.Repeat([]byte(text), 100), Endpoints: engines})].Name
	}
	long := engines[1]
	long.Waiting, long.Usage = 9, 0.9
	for i := range 20 {
		prompt := strings.Repeat(string(rune('A'+i)), 64)
		if got := choose("1", prompt, engines[0], engines[2]); got == engines[1].Name {
			t.Fatalf("it chose %s, which was not offered", got)
		}
		if got := choose("1", prompt, engines[1]); got != engines[1].Name {
			t.Fatalf("it chose %s, which was not offered", got)
		}
		l.sent("1")
		if got := choose("2", prompt, engines...); got != engines[1].Name {
			t.Errorf("a prompt that %s has got was sent to %s", engines[1].Name, got)
		}
		if got := choose("3", prompt, engines[0], long, engines[2]); got == long.Name {
			t.Errorf("a prompt was sent to an engine with a long queue and a full cache")
		}
	}
}
