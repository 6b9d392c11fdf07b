package testkit

import (
	"io"
	"net/http"
)

// Get requests a URL over a connection of its own. Without a complete response, the status is 0 and the body is the error.
func Get(url string) (status int, body string) {
	client := http.Client{Timeout: Timeout, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, err.Error()
	}
	return r.StatusCode, string(text)
}
