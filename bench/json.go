package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// WriteJSON writes a report for programs. Lists of figures stand in one line each.
func WriteJSON(w io.Writer, r *Report) error {
	text, err := json.MarshalIndent(withLists(*r), "", "  ")
	if err != nil {
		return fmt.Errorf("cannot write the report as JSON: %w", err)
	}
	_, err = w.Write(append(flatLists(text), '\n'))
	return err
}

// withLists makes empty lists of those that are not there: null is for figures.
func withLists(r Report) Report {
	r.Gateways = append([]About{}, r.Gateways...)
	r.Scenarios = append([]ScenarioResult{}, r.Scenarios...)
	for i := range r.Scenarios {
		s := &r.Scenarios[i]
		s.Columns, s.Rows = append([]Column{}, s.Columns...), append([]Row{}, s.Rows...)
		s.Thresholds, s.Plots, s.Notes = append([]ThresholdResult{}, s.Thresholds...), append([]Plot{}, s.Plots...), append([]string{}, s.Notes...)
	}
	return r
}

// ReadJSON reads what WriteJSON has written.
func ReadJSON(r io.Reader) (*Report, error) {
	report := &Report{}
	if err := json.NewDecoder(r).Decode(report); err != nil {
		return nil, fmt.Errorf("cannot read a report: %w", err)
	}
	if report.Format != Format {
		return nil, fmt.Errorf("the report has format %d, and this program reads %d: write it anew with this version", report.Format, Format)
	}
	return report, nil
}

// flatLists puts each list that holds neither texts, objects nor lists into one line: those of a plot have hundreds of
// figures.
func flatLists(text []byte) []byte {
	var out []byte
	inText := false
	for i := 0; i < len(text); i++ {
		switch {
		case inText:
			if text[i] == '\\' {
				out = append(out, text[i])
				i++
			} else if text[i] == '"' {
				inText = false
			}
		case text[i] == '"':
			inText = true
		case text[i] == '[':
			end := bytes.IndexAny(text[i+1:], `[]{}"`)
			if end >= 0 && text[i+1+end] == ']' {
				list := bytes.Join(bytes.Fields(text[i:i+end+2]), []byte(" "))
				out = append(out, bytes.ReplaceAll(bytes.ReplaceAll(list, []byte("[ "), []byte("[")), []byte(" ]"), []byte("]"))...)
				i += end + 1
				continue
			}
		}
		out = append(out, text[i])
	}
	return out
}
