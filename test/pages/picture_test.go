package pages

import (
	"fmt"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"colonnade/internal/docpage"
)

const picture = "docs/status.svg"

// Titles of the tables that `colonnade status` prints.
const (
	poolTitles    = "COLO POOL SLOTS QUEUE DRAIN WAIT OLDEST"
	accountTitles = "ACCOUNT HELD WAITING OLDEST RETRIES WEIGHT LEAD OUTPUT BANDS"
)

// busy starts three accounts that ask for more than the fleet has; one has a limit and one a low priority.
const busy = `
printf 'key: accounts/acme\nweight: 2\n---\nkey: accounts/globex\nlimits: {concurrent: 3}\n---\nkey: accounts/initech\npriority: batch\n' | bin/colonnade config apply - > /dev/null
load() { # KEY CLIENTS TOKENS
  for client in $(seq $2); do
    while true; do
      curl -s -o /dev/null http://127.0.0.1:8080/v1/chat/completions -H "authorization: Bearer $1" -H 'content-type: application/json' \
        -d "{\"model\":\"default\",\"max_tokens\":$3,\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]}" || exit
      sleep 0.1$((RANDOM % 10))
    done &
  done
}
load $(bin/colonnade keys create -account acme) 30 120
load $(bin/colonnade keys create -account globex) 14 64
load $(bin/colonnade keys create -account initech) 8 100
sleep 10
for attempt in $(seq 20); do
  status=$(TERM=xterm script -qec 'stty cols 124 rows 50; bin/colonnade status -colo ams' /dev/null)
  case $status in *"at its limit"*) break ;; esac
  sleep 0.2
done
echo "$status"
`

// The picture of the status of a busy fleet has the titles that the program prints. With -update it is taken anew.
func TestStatusPicture(t *testing.T) {
	if docpage.Updating() {
		takePicture(t)
	}
	svg := read(t, picture)
	for _, titles := range []string{poolTitles, accountTitles} {
		if !strings.Contains(svg, "<!-- "+titles+" -->") {
			t.Errorf("%s does not show the titles %q; take it anew with: go test ./test/pages -run TestStatusPicture -update", picture, titles)
		}
	}
}

func takePicture(t *testing.T) {
	t.Helper()
	needs(t, "script")
	s := newSandbox(t)
	s.up("-open=false")
	out := s.bash(busy)
	start := strings.Index(out, "\x1b[1m2")
	if start < 0 {
		t.Fatalf("no status in:\n%s", out)
	}
	for page, here := range s.moved {
		out = strings.ReplaceAll(out, here, page)
	}
	svg := drawTerminal("bin/colonnade status -colo ams", out[start:])
	if err := os.WriteFile(filepath.Join(root, picture), []byte(svg), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Sizes of the picture, in pixels.
const (
	charWidth  = 7.8
	lineHeight = 17
	margin     = 16
)

var (
	sgr   = regexp.MustCompile(`\x1b\[([0-9;]*)m`)
	paint = map[string]string{
		"1": `font-weight="bold"`, "2": `fill="#8b949e"`, "31": `fill="#ff7b72"`, "32": `fill="#56d364"`, "33": `fill="#e3b341"`,
	}
)

// drawTerminal draws a terminal with a command and its output, whose escape sequences set colours, as SVG.
func drawTerminal(command, output string) string {
	lines := strings.Split(strings.TrimSpace(strings.ReplaceAll(output, "\r", "")), "\n")
	lines = append([]string{"\x1b[2m$\x1b[0m " + command, ""}, lines...)
	var text strings.Builder
	columns := 0
	for i, line := range lines {
		columns = max(columns, len([]rune(sgr.ReplaceAllString(line, ""))))
		drawLine(&text, line, margin+float64(i+1)*lineHeight)
	}
	width, height := margin*2+float64(columns)*charWidth, margin*2+float64(len(lines))*lineHeight
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="13">
  <title>The output of colonnade status: the slots and the queue of a pool, its engines, priorities and accounts</title>
  <!-- Written by TestStatusPicture in test/pages from the output of a busy fleet. -->
%s  <rect width="%.0f" height="%.0f" rx="8" fill="#0d1117"/>
  <g fill="#e6edf3" xml:space="preserve">
%s  </g>
</svg>
`, width, height, titleComments(lines), width, height, text.String())
}

// drawLine draws the words of a line, each at its column, since fonts differ in their widths.
func drawLine(out *strings.Builder, line string, y float64) {
	column, style := 0, ""
	for line != "" {
		if m := sgr.FindStringSubmatchIndex(line); m != nil && m[0] == 0 {
			style = paint[line[m[2]:m[3]]]
			line = line[m[1]:]
			continue
		}
		end := len(line)
		if m := sgr.FindStringIndex(line); m != nil {
			end = m[0]
		}
		for _, word := range words.FindAllString(line[:end], -1) {
			length := len([]rune(word))
			if strings.TrimSpace(word) != "" {
				fmt.Fprintf(out, "    <text x=\"%.1f\" y=\"%.0f\" textLength=\"%.1f\" %s>%s</text>\n",
					margin+float64(column)*charWidth, y, float64(length)*charWidth, style, html.EscapeString(word))
			}
			column += length
		}
		line = line[end:]
	}
}

var words = regexp.MustCompile(` +|[^ ]+(?: [^ ]+)*`)

// titleComments notes which titles the picture shows, for the test.
func titleComments(lines []string) string {
	var found strings.Builder
	for _, line := range lines {
		titles := strings.Join(strings.Fields(sgr.ReplaceAllString(line, "")), " ")
		if strings.HasPrefix(titles, "COLO ") || strings.HasPrefix(titles, "ACCOUNT ") {
			found.WriteString("  <!-- " + titles + " -->\n")
		}
	}
	return found.String()
}
