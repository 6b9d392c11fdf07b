package openai

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

const (
	adaptersMetric = "vllm:lora_requests_info{"
	// sameScrape is how much older than the newest a series may be, in seconds: each rank of a data-parallel server writes its own.
	sameScrape = 10
)

// AdaptersInUse returns the LoRA adapters that the metrics of a vLLM server show as running or waiting, sorted. Each set of them is in the
// labels of a series, and the value of a series is when that was so: only the newest count.
//
//	vllm:lora_requests_info{max_lora="4",running_lora_adapters="a,b",waiting_lora_adapters=""} 1.7e+09
func AdaptersInUse(metrics []byte) []string {
	type series struct {
		names []string
		at    float64
	}
	var all []series
	newest := 0.0
	for line := range bytes.Lines(metrics) {
		rest, ours := strings.CutPrefix(string(line[:min(len(line), maxMetricLine)]), adaptersMetric)
		if !ours {
			continue
		}
		labels, value, ok := readLabels(rest)
		at, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if !ok || err != nil {
			continue
		}
		names := append(strings.Split(labels["running_lora_adapters"], ","), strings.Split(labels["waiting_lora_adapters"], ",")...)
		all, newest = append(all, series{names, at}), max(newest, at)
	}
	names := []string{}
	for _, s := range all {
		if s.at < newest-sameScrape {
			continue
		}
		for _, name := range s.names {
			if name = strings.TrimSpace(name); name != "" {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// maxMetricLine bounds a line that is read, in bytes.
const maxMetricLine = 64 << 10

// readLabels reads the labels of a series up to the closing brace, and returns what follows.
func readLabels(text string) (labels map[string]string, rest string, ok bool) {
	labels = map[string]string{}
	for {
		text = strings.TrimLeft(text, ", ")
		if after, end := strings.CutPrefix(text, "}"); end {
			return labels, after, true
		}
		name, after, found := strings.Cut(text, `="`)
		if !found {
			return nil, "", false
		}
		value, after, found := readLabelValue(after)
		if !found {
			return nil, "", false
		}
		labels[strings.TrimSpace(name)], text = value, after
	}
}

// readLabelValue reads a value up to its closing quote.
func readLabelValue(text string) (value, rest string, ok bool) {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return out.String(), text[i+1:], true
		case c == '\\' && i+1 < len(text):
			i++
			if text[i] == 'n' {
				out.WriteByte('\n')
				continue
			}
			out.WriteByte(text[i])
		default:
			out.WriteByte(c)
		}
	}
	return "", "", false
}
