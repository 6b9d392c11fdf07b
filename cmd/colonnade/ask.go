package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

const (
	askTimeout = 3 * time.Second
	maxPage    = 16 << 20
)

// asker asks admin listeners for their pages.
type asker struct{ client *http.Client }

func newAsker(timeout time.Duration) asker {
	return asker{&http.Client{
		Timeout:       timeout,
		Transport:     &http.Transport{}, // no proxy stands before an admin listener
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// get returns the answer of a page, whatever its status.
func (a asker) get(ctx context.Context, admin, page string) (*http.Response, error) {
	if admin == "" {
		return nil, errors.New("it has registered no admin address: a node of an older version")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+page, nil)
	if err != nil {
		return nil, err
	}
	answer, err := a.client.Do(request)
	if err != nil {
		return nil, a.unreachable(admin, err)
	}
	return answer, nil
}

// page reads a page of JSON.
func (a asker) page(ctx context.Context, admin, page string, into any) error {
	answer, err := a.get(ctx, admin, page)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	path, _, _ := strings.Cut(page, "?")
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return fmt.Errorf("it has no page %s: a node of an older version or of another kind, or something else listens there", path)
	default:
		return fmt.Errorf("its page %s answers with %d", path, answer.StatusCode)
	}
	body := &io.LimitedReader{R: answer.Body, N: maxPage}
	err = json.NewDecoder(body).Decode(into)
	switch {
	case err == nil:
		return nil
	case body.N == 0:
		return fmt.Errorf("its page %s is longer than %d MiB", path, maxPage>>20)
	case isTimeout(err):
		return fmt.Errorf("its page %s has not come whole within %s", path, a.client.Timeout)
	}
	return fmt.Errorf("its page %s cannot be read: %w", path, err)
}

func isTimeout(err error) bool {
	var slow net.Error
	return errors.As(err, &slow) && slow.Timeout()
}

func anotherNode(said, admin string) error {
	return fmt.Errorf("there, node %s answers; %s", shown(said), elsewhere(admin))
}

// unreachable says why an admin listener does not answer, without the URL, which stands beside it.
func (a asker) unreachable(admin string, err error) error {
	var op *net.OpError
	switch {
	case isTimeout(err):
		err = fmt.Errorf("no answer within %s", a.client.Timeout)
	case errors.As(err, &op):
		err = op.Err
	}
	if isLoopback(admin) {
		return fmt.Errorf("%w; %s", strip(err), elsewhere(admin))
	}
	return strip(err)
}

// strip takes the name of the system call from an error.
func strip(err error) error {
	if before, reason, ok := strings.Cut(err.Error(), ": "); ok && before == "connect" {
		return errors.New(reason)
	}
	return err
}

func isLoopback(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// elsewhere says what to do about an address that means another node here.
func elsewhere(admin string) string {
	if isLoopback(admin) {
		return "if the node is on another machine, run this there, or start it with -admin on an address that is reached from here"
	}
	return "the node that has registered this address is gone, or not the only one with it"
}
