package messages_test

import (
	"testing"

	"colonnade/internal/docpage"
	"colonnade/openai/messages"
)

// The tables of the page are made from those by which requests and answers are translated.
func TestAnthropicPage(t *testing.T) {
	var fields [][]string
	for _, o := range messages.Objects() {
		for _, f := range o.Fields {
			fields = append(fields, []string{o.Name, "`" + f.Name + "`", f.Does.String(), f.Note})
		}
	}
	var stops [][]string
	for _, s := range messages.StopReasons() {
		finish := "anything else"
		if s.Finish != "" {
			finish = "`" + s.Finish + "`"
		}
		stops = append(stops, []string{finish, "`" + s.Stop + "`", s.Note})
	}
	docpage.Check(t, "docs/anthropic.md", map[string]string{
		"fields":       docpage.Table([]string{"of", "field", "is", "in chat, or why"}, fields),
		"stop reasons": docpage.Table([]string{"`finish_reason`", "`stop_reason`", "but"}, stops),
	})
}
