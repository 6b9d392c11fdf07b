package clickhousetest

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	_ "embed"
)

//go:embed engine.py
var program string

// engine is a process with the engine of ClickHouse.
type engine struct {
	process *exec.Cmd
	file    string // whose content inserts write

	mu  sync.Mutex // guards the fields below
	in  io.Writer
	out io.Reader
}

func startEngine(python, dir string) (*engine, error) {
	e := &engine{process: exec.Command(python, "-c", program, filepath.Join(dir, "data")), file: filepath.Join(dir, "insert")}
	in, err := e.process.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := e.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	e.in, e.out = in, out
	return e, e.process.Start()
}

// run executes statements in order and returns the answer to the last one, in the format Native. data is what the file of inserts has.
func (e *engine) run(statements []string, data []byte) ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := os.WriteFile(e.file, data, 0o600); err != nil {
		return nil, err
	}
	var answer []byte
	for _, statement := range statements {
		var err error
		if answer, err = e.runLocked(statement); err != nil {
			return nil, err
		}
	}
	return answer, nil
}

func (e *engine) runLocked(statement string) ([]byte, error) {
	if _, err := e.in.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(statement))), statement...)); err != nil {
		return nil, err
	}
	var head [5]byte
	if _, err := io.ReadFull(e.out, head[:]); err != nil {
		return nil, err
	}
	answer := make([]byte, binary.LittleEndian.Uint32(head[1:]))
	if _, err := io.ReadFull(e.out, answer); err != nil {
		return nil, err
	}
	if head[0] != 0 {
		return nil, exception{errors.New(string(answer))}
	}
	return answer, nil
}

// exception is an error of the engine, as opposed to its end.
type exception struct{ error }

// kill ends the process at once.
func (e *engine) kill() {
	_ = e.process.Process.Kill()
	_ = e.process.Wait()
}
