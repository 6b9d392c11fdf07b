package entry

import (
	"fmt"
	"math"
	"strings"
)

// dayPanel is one of several diagrams over the hours of a day.
type dayPanel struct {
	title string
	most  float64 // of the y axis
	step  float64 // between two lines of the grid
	unit  string
	lines []dayLine
}

// dayLine is a line of a panel. It has one value for each span of time.
type dayLine struct {
	name, colour string
	dashed       bool
	values       []float64
}

// The size of a picture, in pixels.
const (
	dayChartWidth  = 860
	dayPanelHeight = 190
	dayPlotLeft    = 70
	dayPlotRight   = 700 // the names of lines are to the right
	dayPlotHeight  = 128
)

// drawDay returns a picture of panels below each other. The time at which a region is lost is shaded.
func drawDay(title string, panels []dayPanel) string {
	height := len(panels)*dayPanelHeight + 40
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="Helvetica, Arial, DejaVu Sans, sans-serif" font-size="12">`+"\n", dayChartWidth, height)
	fmt.Fprintf(&b, "  <title>%s</title>\n", title)
	fmt.Fprintf(&b, `  <rect width="%d" height="%d" rx="10" fill="#ffffff"/>`+"\n", dayChartWidth, height)
	for i, p := range panels {
		p.draw(&b, i*dayPanelHeight+44)
	}
	fmt.Fprintf(&b, `  <text x="%d" y="%d" fill="#475569" text-anchor="middle">hour of the day, UTC</text>`+"\n", (dayPlotLeft+dayPlotRight)/2, height-14)
	b.WriteString("</svg>\n")
	return b.String()
}

// x returns where an hour is.
func (p *dayPanel) x(hour float64) float64 { return dayPlotLeft + hour/24*(dayPlotRight-dayPlotLeft) }

// y returns where a value is, in a panel whose plot begins at top.
func (p *dayPanel) y(top int, value float64) float64 {
	return float64(top) + dayPlotHeight*(1-math.Min(value/p.most, 1))
}

func (p *dayPanel) draw(b *strings.Builder, top int) {
	bottom := top + dayPlotHeight
	fmt.Fprintf(b, `  <text x="%d" y="%d" fill="#0f172a" font-size="13" font-weight="bold">%s</text>`+"\n", dayPlotLeft, top-14, p.title)
	fmt.Fprintf(b, `  <rect x="%.1f" y="%d" width="%.1f" height="%d" fill="#f1f5f9"/>`+"\n", p.x(dayLostFrom), top, p.x(dayLostTo)-p.x(dayLostFrom), dayPlotHeight)
	b.WriteString(`  <g stroke="#cbd5e1" stroke-width="1">` + "\n")
	for value := 0.0; value <= p.most*1.001; value += p.step {
		fmt.Fprintf(b, `    <path d="M%d %.1fH%d"/>`+"\n", dayPlotLeft, p.y(top, value), dayPlotRight)
	}
	b.WriteString("  </g>\n" + `  <g fill="#475569" text-anchor="end">` + "\n")
	for value := 0.0; value <= p.most*1.001; value += p.step {
		fmt.Fprintf(b, `    <text x="%d" y="%.1f">%g%s</text>`+"\n", dayPlotLeft-8, p.y(top, value)+4, math.Round(value*10)/10, p.unit)
	}
	b.WriteString("  </g>\n" + `  <g fill="#475569" text-anchor="middle">` + "\n")
	for hour := 0; hour <= 24; hour += 3 {
		fmt.Fprintf(b, `    <text x="%.1f" y="%d">%d</text>`+"\n", p.x(float64(hour)), bottom+16, hour)
	}
	b.WriteString("  </g>\n")
	for i, l := range p.lines {
		l.draw(b, p, top, i)
	}
}

func (l *dayLine) draw(b *strings.Builder, p *dayPanel, top, index int) {
	dash := ""
	if l.dashed {
		dash = ` stroke-dasharray="5 3"`
	}
	var path strings.Builder
	for i, value := range l.values {
		command := "L"
		if i == 0 {
			command = "M"
		}
		fmt.Fprintf(&path, "%s%.1f %.1f", command, p.x((float64(i)+0.5)*24/float64(len(l.values))), p.y(top, value))
	}
	fmt.Fprintf(b, `  <path d="%s" fill="none" stroke="%s" stroke-width="1.8" stroke-linejoin="round"%s/>`+"\n", path.String(), l.colour, dash)
	at := top + 8 + 18*index
	fmt.Fprintf(b, `  <path d="M%d %dh24" stroke="%s" stroke-width="2.5"%s/>`+"\n", dayPlotRight+14, at, l.colour, dash)
	fmt.Fprintf(b, `  <text x="%d" y="%d" fill="#0f172a">%s</text>`+"\n", dayPlotRight+46, at+4, l.name)
}

// niceMost returns the end of an axis that has room for a value, and the distance of the lines of its grid.
func niceMost(value float64) (most, step float64) {
	scale := math.Pow(10, math.Floor(math.Log10(math.Max(value, 1e-9)/4)))
	for _, factor := range []float64{1, 2, 5, 10} {
		if step = factor * scale; step*4 >= value {
			return math.Ceil(value/step) * step, step
		}
	}
	return value, value / 4
}
