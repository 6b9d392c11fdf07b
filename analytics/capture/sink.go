package capture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"
)

// postTimeout bounds one POST.
const postTimeout = 10 * time.Second

// sink takes lines of JSON: a file, or a URL. It is for one goroutine.
type sink struct {
	path string // of a file; empty = url
	url  string
	file *os.File
	torn bool // the file may end inside of a line
	http *http.Client
}

func newSink(address string) sink {
	if path, isFile := strings.CutPrefix(address, "file:"); isFile {
		return sink{path: path}
	}
	return sink{url: address, http: &http.Client{
		Transport:     &http.Transport{Proxy: nil, MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // content goes where the document says, and nowhere else
	}}
}

func (s *sink) write(ctx context.Context, lines []byte) error {
	if s.path != "" {
		return s.append(lines)
	}
	return s.post(ctx, lines)
}

func (s *sink) close() {
	if s.file != nil {
		_ = s.file.Close()
	}
	if s.http != nil {
		s.http.CloseIdleConnections()
	}
}

// append appends to the file.
func (s *sink) append(lines []byte) error {
	if s.file == nil {
		if err := s.open(); err != nil {
			return err
		}
	}
	if s.torn {
		lines = append([]byte{'\n'}, lines...)
	}
	n, err := s.file.Write(lines)
	if n > 0 {
		s.torn = err != nil
	}
	return err
}

// open opens the file, which only its owner may read: it must be new, or one that an earlier capture has made.
func (s *sink) open() error {
	f, err := os.OpenFile(s.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if errors.Is(err, syscall.ELOOP) {
		return fmt.Errorf("%s is a symbolic link: name the file itself", s.path)
	}
	if err != nil {
		return err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%s is no regular file", s.path)
	case info.Mode().Perm() != 0o600:
		err = fmt.Errorf("%s has the mode %#o, and a capture needs 0600: move the file away, or change its mode", s.path, info.Mode().Perm())
	}
	if err != nil {
		_ = f.Close()
		return err
	}
	s.file = f
	return nil
}

// post sends lines to the URL.
func (s *sink) post(ctx context.Context, lines []byte) error {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(lines))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/x-ndjson")
	response, err := s.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10))
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("the sink answered %s", response.Status)
	}
	return nil
}
