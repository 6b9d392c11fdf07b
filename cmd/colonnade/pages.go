package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	pageTimeout = 3 * time.Second
	maxPage     = 16 << 20
)

// pageReader reads pages of admin listeners.
type pageReader struct {
	client *http.Client
	first  time.Duration // longest time until an answer begins; 0: that of the client for the whole answer
}

func newPageReader(timeout time.Duration) pageReader {
	return pageReader{client: &http.Client{
		Timeout:       timeout,
		Transport:     &http.Transport{}, // no proxy: admin listeners are not on the Internet
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// newLongPageReader returns a reader of pages that take longer, and begin at once.
func newLongPageReader(timeout time.Duration) pageReader {
	r := newPageReader(timeout)
	r.first = pageTimeout
	r.client.Transport = &http.Transport{DialContext: (&net.Dialer{Timeout: r.first}).DialContext, ResponseHeaderTimeout: r.first}
	return r
}

// get returns a page's status and body; see fetch.
func (r pageReader) get(ctx context.Context, admin, page string) (status int, body []byte, err error) {
	response, body, err := r.fetch(ctx, admin, page)
	if err != nil {
		return 0, nil, err
	}
	return response.StatusCode, body, nil
}

// fetch returns the answer of a page, and its body. Errors do not repeat the address, which the caller names.
func (r pageReader) fetch(ctx context.Context, admin, page string) (response *http.Response, body []byte, err error) {
	if admin == "" {
		return nil, nil, errors.New("it has registered no admin address: a node of an older version")
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+page, nil)
	if err != nil {
		return nil, nil, err
	}
	response, err = r.client.Do(q)
	if err == nil {
		defer response.Body.Close()
		body, err = io.ReadAll(io.LimitReader(response.Body, maxPage+1))
	}
	var timeout net.Error
	var network *net.OpError
	var request *url.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		within := r.client.Timeout
		if response == nil && r.first > 0 {
			within = r.first
		}
		err = fmt.Errorf("no complete answer within %s", within)
	case errors.As(err, &network):
		err = errors.New(strings.TrimPrefix(network.Err.Error(), "connect: ")) // the system call
	case errors.As(err, &request):
		err = request.Err
	case err == nil && len(body) > maxPage:
		err = fmt.Errorf("its page %s is longer than %d MiB", page, maxPage>>20)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w; %s", err, addressHint(admin))
	}
	return response, body, nil
}

// readJSON decodes a page.
func (r pageReader) readJSON(ctx context.Context, admin, page string, into any) error {
	status, body, err := r.get(ctx, admin, page)
	path, _, _ := strings.Cut(page, "?")
	switch {
	case err != nil:
		return err
	case status == http.StatusNotFound:
		return fmt.Errorf("it has no page %s: a node of an older version or of another kind, or another program", path)
	case status != http.StatusOK:
		return fmt.Errorf("its page %s has the status %d", path, status)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("cannot read its page %s: %w", path, err)
	}
	return nil
}

// readiness returns the reason why a node is not ready; empty if it is.
func (r pageReader) readiness(ctx context.Context, admin string) (string, error) {
	status, body, err := r.get(ctx, admin, "/health/ready")
	switch {
	case err != nil || status == http.StatusOK:
		return "", err
	case status == http.StatusServiceUnavailable:
		reason, _, _ := strings.Cut(string(body), "\n")
		return cmp.Or(strings.TrimSpace(reason), "it gives no reason"), nil
	}
	return fmt.Sprintf("its page /health/ready has the status %d", status), nil
}

// onAnotherMachine begins the hint about an address that means another machine elsewhere.
const onAnotherMachine = "if the node is on another machine"

// addressHint says what to do about an address at which the node itself does not answer.
func addressHint(admin string) string {
	host, _, _ := net.SplitHostPort(admin)
	if host == "localhost" || net.ParseIP(host).IsLoopback() {
		return onAnotherMachine + ", run this there, or start it with -admin on an address that is reachable from here"
	}
	return "the node may be gone, or the address that it has registered belongs to another one"
}
