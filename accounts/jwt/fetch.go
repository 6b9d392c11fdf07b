package jwt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"colonnade/fleet"
)

const (
	fetchTimeout = 10 * time.Second
	maxPage      = 256 << 10 // bytes of a key set, or of what leads to it
	discovery    = "/.well-known/openid-configuration"
)

// fetcher fetches key sets.
type fetcher struct{ client *http.Client }

func newFetcher() fetcher {
	return fetcher{&http.Client{
		Timeout:       fetchTimeout,
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}, // once an hour
		CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("it redirects, which is not followed") },
	}}
}

// keySetText returns the text of an issuer's key set.
func (f fetcher) keySetText(ctx context.Context, i *fleet.Issuer) ([]byte, error) {
	if i.JWKS != "" {
		return f.page(ctx, i.JWKS)
	}
	url := strings.TrimSuffix(i.Issuer, "/") + discovery
	text, err := f.page(ctx, url)
	if err != nil {
		return nil, err
	}
	var found struct {
		Issuer string `json:"issuer"`
		JWKS   string `json:"jwks_uri"`
	}
	switch err := json.Unmarshal(text, &found); {
	case err != nil:
		return nil, fmt.Errorf("%s is not JSON", url)
	case found.Issuer != i.Issuer:
		return nil, fmt.Errorf("%s is about the issuer %.100q", url, found.Issuer)
	case !fleet.IsKeySetURL(found.JWKS):
		return nil, fmt.Errorf("%s names the key set %.100q: it must be an https URL, or an http URL of a loopback address", url, found.JWKS)
	}
	return f.page(ctx, found.JWKS)
}

func (f fetcher) page(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	response, err := f.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers with the status %d", url, response.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxPage+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", url, err)
	}
	if len(text) > maxPage {
		return nil, fmt.Errorf("%s has more than %d KiB", url, maxPage>>10)
	}
	return text, nil
}
