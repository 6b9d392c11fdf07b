package child

import "sync"

// tail keeps the last output of a process.
type tail struct {
	mu   sync.Mutex // guards the field below
	text []byte
}

func (t *tail) Write(b []byte) (int, error) {
	const most = 2 << 10
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	t.text = t.text[max(0, len(t.text)-most):]
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
