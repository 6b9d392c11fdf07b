package openai_test

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"colonnade/openai"
)

var (
	lineAndEnd  = regexp.MustCompile(`[^\r\n]*(?:\r\n|\r|\n)`)
	lineEnd     = regexp.MustCompile(`\r\n|\r|\n`)
	plainNumber = regexp.MustCompile(`^[0-9]{1,15}$`)
	nodeComment = regexp.MustCompile(`(?i)^:[ \t]*(queue|heartbeat)([^a-z0-9]|$)`)
	plainTime   = regexp.MustCompile(`^[0-9][0-9.eE+-]{0,23}$`)
)

// result is the output of a stream and all that it reports.
type result struct {
	delivered string
	tail      string // what Finish delivers
	first     openai.FirstEvent
	ended     bool
	failed    bool
	usage     openai.Usage
	hasUsage  bool
	deltas    int
	sequence  int
	tooLong   bool
	over      bool
	trailing  bool
}

// streamModel reads a whole stream at once, in the simplest way.
type streamModel struct {
	config           openai.StreamConfig
	maxHeld, maxSize int
	result
	unknown bool // a long event that is not JSON: its meaning is not defined
}

func (m *streamModel) read(text string) {
	lines := lineAndEnd.FindAllString(text, -1)
	rest := strings.TrimPrefix(text, strings.Join(lines, ""))
	event, bom := "", true
	for _, line := range lines {
		if m.over {
			m.trailing = true
			return
		}
		event += line
		if strings.Trim(line, "\r\n") != "" {
			continue
		}
		if !m.whole(event, bom) {
			return
		}
		event, bom = "", false
	}
	if m.over {
		m.trailing = rest != ""
		return
	}
	m.partial(event+rest, bom)
}

// withoutComments empties the comments that are not delivered.
func withoutComments(event string, bom, long bool) (clean string) {
	rest := event
	if bom {
		rest = strings.TrimPrefix(event, "\ufeff")
	}
	clean = event[:len(event)-len(rest)]
	for rest != "" {
		line := lineAndEnd.FindString(rest)
		if line == "" {
			line = rest
		}
		rest = rest[len(line):]
		text := strings.TrimRight(line, "\r\n")
		if strings.HasPrefix(text, ":") && long || nodeComment.MatchString(text) {
			line = ":" + line[len(text):]
		}
		clean += line
	}
	return clean
}

// whole takes a complete event and reports whether the stream continues.
func (m *streamModel) whole(event string, bom bool) bool {
	size := len(event)
	if strings.HasSuffix(event, "\r\n") {
		size-- // the LF does not count, as it may come late
	}
	if size > m.maxSize {
		m.delivered += withoutComments(event[:m.maxSize], bom, true)
		m.tooLong = true
		m.commit()
		return false
	}
	long := size > m.maxHeld
	if long {
		m.commit()
	}
	if !m.meaning(event, bom, long) || long {
		m.delivered += withoutComments(event, bom, long)
	}
	return true
}

func (m *streamModel) partial(event string, bom bool) {
	switch {
	case len(event) > m.maxSize:
		m.delivered += withoutComments(event[:m.maxSize], bom, true)
		m.tooLong = true
		m.commit()
	case len(event) > m.maxHeld:
		m.delivered += withoutComments(event, bom, true)
		m.commit()
	case event == "":
	case m.ended || !m.needsEnd():
		m.tail = withoutComments(event, bom, false)
	default:
		before := m.result
		m.meaning(event, bom, false)
		if !m.ended {
			m.result = before
			return
		}
		m.tail = withoutComments(event, bom, false) + "\n\n"
	}
}

func (m *streamModel) needsEnd() bool {
	return strings.Contains("chat completions responses transcriptions speech images", m.config.API.String())
}

func (m *streamModel) commit() {
	if m.first == openai.NoEvent {
		m.first = openai.DataEvent
	}
}

// meaning records an event and reports whether it must be taken out.
func (m *streamModel) meaning(event string, bom, long bool) (strip bool) {
	name, data := eventFields(event, bom)
	if data == "" {
		return false
	}
	if strings.HasPrefix(data, "[DONE]") {
		m.commit()
		m.unknown = m.unknown || long
		switch m.config.API {
		case openai.Chat, openai.Completions, openai.Transcriptions:
			m.ended = true
		}
		m.over = m.ended
		return false
	}
	root := parseNode([]byte(data))
	if long {
		m.unknown = m.unknown || root == nil
		root = root.prune()
	}
	if root.deep() > 200 || long && root.deep() > 64 {
		root = nil
	}
	return m.note(name, root)
}

func (m *streamModel) note(name string, root *node) (strip bool) {
	if root != nil && root.raw[0] != '{' {
		root = nil
	}
	kind := root.last("type").text()
	if root.last("type") == nil || root.last("type").raw[0] != '"' {
		kind = name
	}
	failed := name == "error" || kind == "error" || kind == "response.failed"
	for _, e := range root.all("error") {
		raw := e.raw
		failed = failed || raw != "null" && raw != "false" && raw != "0" && raw != `""`
	}
	for _, e := range root.all("object") {
		failed = failed || e.text() == "error"
	}
	if m.first == openai.NoEvent && (failed || kind != "ping" && kind != "keepalive") {
		m.first = openai.DataEvent
		if failed {
			m.first = openai.ErrorEvent
		}
	}
	m.failed = m.failed || failed
	switch images := m.config.API == openai.Images; {
	case root == nil:
	case images && strings.HasSuffix(kind, ".partial_image") && len(kind) <= 256:
		m.ended = false
	case m.endsWith(kind):
		m.ended = true
		m.over = m.over || !images && kind != "error"
	}
	m.count(root)
	choices, usage := root.last("choices"), false
	reports := root.all("usage")
	for _, r := range root.all("response") {
		reports = append(reports, r.all("usage")...)
	}
	for _, u := range reports {
		usage = usage || u.raw[0] == '{'
	}
	empty := choices != nil && choices.raw[0] == '[' && len(choices.children) == 0
	return m.config.StripUsage && (m.config.API == openai.Chat || m.config.API == openai.Completions) && empty && usage && !failed
}

func (m *streamModel) endsWith(kind string) bool {
	switch m.config.API {
	case openai.Responses:
		return kind == "response.completed" || kind == "response.incomplete" || kind == "response.failed" || kind == "error"
	case openai.Transcriptions:
		return kind == "transcript.text.done"
	case openai.Speech:
		return kind == "speech.audio.done"
	case openai.Images:
		return strings.HasSuffix(kind, ".completed") && len(kind) <= 256
	}
	return false
}

func (m *streamModel) count(root *node) {
	before := m.hasUsage
	m.hasUsage = false
	defer func() {
		for _, n := range slices.Backward(root.all("timings")) {
			for _, c := range slices.Backward(n.all("cache_n")) {
				if n, counts := c.count(); counts && m.hasUsage && m.usage.Cached == 0 {
					m.usage.Cached = min(n, m.usage.Prompt)
				}
			}
		}
		m.hasUsage = m.hasUsage || before
	}()
	for _, member := range root.members() {
		switch member.key {
		case "usage":
			m.readUsage(member)
		case "delta":
			m.deltas += member.filled()
		case "choices":
			for _, c := range member.children {
				m.deltas += choiceDeltas(c)
			}
		case "response":
			for _, inner := range member.all("usage") {
				m.readUsage(inner)
			}
		}
	}
	for _, s := range root.all("sequence_number") {
		if n, ok := s.count(); ok {
			m.sequence = n + 1
		}
	}
}

func choiceDeltas(c *node) (deltas int) {
	for _, member := range c.members() {
		switch {
		case member.key == "text":
			deltas = max(deltas, member.filled())
		case member.key == "delta" && member.raw[0] == '{':
			for _, inner := range member.children {
				if inner.key != "role" {
					deltas = max(deltas, inner.filled())
				}
			}
		}
	}
	return deltas
}

func (m *streamModel) readUsage(n *node) {
	var u openai.Usage
	ok := false
	for _, member := range n.members() {
		c, counts := member.count()
		switch member.key {
		case "prompt_tokens", "input_tokens":
			if counts {
				u.Prompt, ok = c, true
			}
		case "completion_tokens", "output_tokens":
			if counts {
				u.Completion, ok = c, true
			}
		case "seconds":
			if f, err := strconv.ParseFloat(member.raw, 64); err == nil && f <= 366*24*3600 && plainTime.MatchString(member.raw) {
				u.Seconds, ok = f, true
			}
		case "prompt_tokens_details", "input_tokens_details", "input_token_details":
			for _, inner := range member.all("cached_tokens") {
				if c, counts := inner.count(); counts {
					u.Cached = c
				}
			}
		}
	}
	for _, member := range n.all("total_tokens") {
		if c, counts := member.count(); counts && !ok {
			u.Prompt = c
			defer func() { m.usage, m.hasUsage = u, true }()
		}
	}
	if ok {
		m.usage, m.hasUsage = u, true
	}
}

// eventFields reads an event's name and joined data.
func eventFields(event string, bom bool) (name, data string) {
	if bom {
		event = strings.TrimPrefix(event, "\ufeff")
	}
	var datas []string
	for _, line := range lineEnd.Split(event, -1) {
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			name = value
		case "data":
			datas = append(datas, value)
		}
	}
	// The end of the event splits into empty lines, which are no fields.
	return name, strings.Join(datas, "\n")
}

// node is a JSON value that keeps the order of its members, and repeated ones.
type node struct {
	raw      string
	key      string
	children []*node
}

func parseNode(raw []byte) *node {
	if !json.Valid(raw) {
		return nil
	}
	n := &node{raw: strings.Trim(string(raw), " \t\r\n")}
	if n.raw[0] != '{' && n.raw[0] != '[' {
		return n
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	_, _ = d.Token()
	for d.More() {
		key := ""
		if n.raw[0] == '{' {
			token, _ := d.Token()
			key = token.(string)
		}
		var value json.RawMessage
		_ = d.Decode(&value)
		child := parseNode(value)
		child.key = key
		n.children = append(n.children, child)
	}
	return n
}

func (n *node) members() []*node {
	if n == nil || n.raw[0] != '{' {
		return nil
	}
	return n.children
}

func (n *node) all(key string) (found []*node) {
	for _, c := range n.members() {
		if c.key == key {
			found = append(found, c)
		}
	}
	return found
}

func (n *node) last(key string) *node {
	if all := n.all(key); len(all) > 0 {
		return all[len(all)-1]
	}
	return nil
}

// prune keeps only the first element of each array.
func (n *node) prune() *node {
	if n == nil {
		return nil
	}
	if n.raw[0] == '[' && len(n.children) > 1 {
		n.children = n.children[:1]
	}
	for _, c := range n.children {
		c.prune()
	}
	return n
}

func (n *node) deep() int {
	if n == nil || n.raw[0] != '{' && n.raw[0] != '[' {
		return 0
	}
	deepest := 0
	for _, c := range n.children {
		deepest = max(deepest, c.deep())
	}
	return deepest + 1
}

func (n *node) text() (s string) {
	if n != nil {
		_ = json.Unmarshal([]byte(n.raw), &s)
	}
	return s
}

func (n *node) count() (c int, ok bool) {
	if !plainNumber.MatchString(n.raw) {
		return 0, false
	}
	return c, json.Unmarshal([]byte(n.raw), &c) == nil
}

func (n *node) filled() int {
	if n.raw[0] == '"' && len(n.raw) > 2 || len(n.children) > 0 {
		return 1
	}
	return 0
}
