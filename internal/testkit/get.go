package testkit

import (
	"io"
	"net/http"
	"strings"
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

// Post sends a JSON body with headers (name, value, …). Without a complete response, the status is 0 and the text is the error.
func Post(url, body string, headers ...string) (status int, header http.Header, text string) {
	r, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, err.Error()
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	client := http.Client{Timeout: Timeout}
	answer, err := client.Do(r)
	if err != nil {
		return 0, nil, err.Error()
	}
	defer answer.Body.Close()
	all, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, nil, err.Error()
	}
	return answer.StatusCode, answer.Header, string(all)
}
