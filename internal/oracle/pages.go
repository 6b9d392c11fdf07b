package oracle

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// atRest are the metrics that are zero in every series when no request is in flight.
var atRest = []string{"colonnade_permits_held", "inference_queue_length", "inference_active_requests", "colonnade_events_open"}

// pageProblems checks one admin listener.
func (o *Oracle) pageProblems(base string) []string {
	var found []string
	status, body, err := o.get(base + "/debug/check")
	switch {
	case err != nil:
		found = append(found, fmt.Sprintf("%s: %v", base, err))
	case status != http.StatusOK:
		found = append(found, fmt.Sprintf("%s/debug/check: %d: %s", base, status, strings.TrimSpace(body)))
	}
	status, body, err = o.get(base + "/metrics")
	switch {
	case err != nil:
		found = append(found, fmt.Sprintf("%s: %v", base, err))
	case status != http.StatusOK:
		found = append(found, fmt.Sprintf("%s/metrics: %d: %s", base, status, strings.TrimSpace(body)))
	default:
		for _, series := range notAtRest(body) {
			found = append(found, fmt.Sprintf("%s/metrics: %s, want 0", base, series))
		}
	}
	return found
}

func (o *Oracle) get(url string) (int, string, error) {
	response, err := o.client.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, "", fmt.Errorf("cannot read %s: %w", url, err)
	}
	return response.StatusCode, string(body), nil
}

// notAtRest returns the series of atRest that are not 0, as lines of Prometheus text.
func notAtRest(text string) []string {
	var found []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		for _, name := range atRest {
			rest, ok := strings.CutPrefix(line, name)
			if !ok || rest == "" || rest[0] != ' ' && rest[0] != '{' {
				continue
			}
			value, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
			if err != nil || value != 0 {
				found = append(found, line)
			}
		}
	}
	return found
}
