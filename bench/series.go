package bench

import (
	"image/color"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// fewPoints is up to how many points of a line each is shown by itself.
const fewPoints = 24

func (p *picture) prepareLines() {
	x := append(p.all(xs), p.levels(true)...)
	p.x = scaleOf(p.plot.X, x).fitted(p.plot.X, x)
	if ticks := sampled(p.plot.X, p.x, p.all(xs)); ticks != nil {
		p.x.ticks = ticks
	}
	p.y = scaleOf(p.plot.Y, append(p.all(ys), p.levels(false)...))
	p.paint = func(c draw.Canvas, at place) {
		for _, s := range p.inOrder() {
			p.drawLine(c, at, s)
		}
	}
}

// prepareCDF makes lines of what was measured: x, and the share of all that is not above it.
func (p *picture) prepareCDF() {
	shares := make([]Series, len(p.plot.Series))
	for i, s := range p.plot.Series {
		shares[i] = s
		shares[i].X, shares[i].Y = cumulated(s.X, p.plot.X.Log)
	}
	p.plot.Series = shares
	p.plot.Y.Unit = "%"
	p.prepareLines()
	p.paint = func(c draw.Canvas, at place) {
		for _, s := range p.inOrder() {
			c.StrokeLines(p.stroke(s), p.segments(at, s)...)
		}
	}
}

// cumulated sorts what was measured. On a logarithmic axis zeros have no place: they count, and the line begins above them.
// What was not measured counts, too, and the line ends below 100 %: who was turned away had no time to measure.
func cumulated(values []Value, log bool) (x, y []Value) {
	var sorted []Value
	for _, v := range values {
		if v.Measured() {
			sorted = append(sorted, v)
		}
	}
	slices.Sort(sorted)
	for i, v := range sorted {
		if log && v <= 0 {
			continue
		}
		before, after := Value(float64(i)/float64(len(values))), Value(float64(i+1)/float64(len(values)))
		x, y = append(x, v, v), append(y, before, after) // a step
	}
	return x, y
}

func (p *picture) stroke(s Series) draw.LineStyle {
	l := p.lookOf(s)
	style := draw.LineStyle{Color: l.colour, Width: 1.4}
	if l.strong {
		style.Width = 3.4
	}
	if s.Dashed {
		style.Dashes = []vg.Length{5, 3}
	}
	return style
}

// segments are the points of a line, with a gap wherever nothing was measured.
func (p *picture) segments(at place, s Series) [][]vg.Point {
	var lines [][]vg.Point
	var line []vg.Point
	for i := range min(len(s.X), len(s.Y)) {
		if !p.x.has(s.X[i]) || !p.y.has(s.Y[i]) {
			if len(line) > 0 {
				lines, line = append(lines, line), nil
			}
			continue
		}
		line = append(line, vg.Point{X: at.x(float64(s.X[i])), Y: at.y(float64(s.Y[i]))})
	}
	return append(lines, line)
}

func (p *picture) drawLine(c draw.Canvas, at place, s Series) {
	lines := p.segments(at, s)
	c.StrokeLines(p.stroke(s), lines...)
	points := slices.Concat(lines...)
	for _, point := range points {
		if len(points) <= fewPoints {
			c.DrawGlyphNoClip(p.glyph(s), point)
		}
	}
}

func (p *picture) glyph(s Series) draw.GlyphStyle {
	l := p.lookOf(s)
	style := draw.GlyphStyle{Color: l.colour, Shape: l.shape, Radius: 3}
	if l.strong {
		style.Radius = 5
	}
	return style
}

// prepareBars gives each group the room from its number less a half to its number and a half.
func (p *picture) prepareBars() {
	p.bars = true
	groups := len(p.plot.X.Names)
	for _, s := range p.plot.Series {
		groups = max(groups, len(s.Y))
	}
	p.x = scale{min: -0.5, max: float64(groups) - 0.5}
	for i := range groups {
		t := plot.Tick{Value: float64(i), Label: " "}
		if i < len(p.plot.X.Names) {
			t.Label = folded(p.plot.X.Names[i], 420/max(groups, 1)/5)
		}
		p.x.ticks = append(p.x.ticks, t)
	}
	evenLines(p.x.ticks)
	p.y = scaleOf(p.plot.Y, append(p.all(ys), p.levels(false)...))
	p.paint = p.drawBars
}

// bar is where one stands: from left to right, and from its foot, at 0 or where a logarithmic axis begins, to its value.
type bar struct {
	left, right, foot, top vg.Length
	series                 Series
	value                  Value
}

// eachBar lays bars out: the groups beside each other, and in a group one of each series.
func (p *picture) eachBar(at place, each func(bar)) {
	const filled = 0.84 // of a group's room
	width := filled / float64(len(p.plot.Series))
	foot := at.y(p.y.min)
	if !p.y.log {
		foot = at.y(0)
	}
	for i, s := range p.plot.Series {
		for group, v := range s.Y {
			left := float64(group) - filled/2 + float64(i)*width
			b := bar{left: at.x(left + width*0.06), right: at.x(left + width*0.94), foot: foot, top: foot, series: s, value: v}
			if p.y.has(v) {
				b.top = at.y(float64(v))
			}
			each(b)
		}
	}
}

func (p *picture) drawBars(c draw.Canvas, at place) {
	p.eachBar(at, func(b bar) {
		c.FillPolygon(fillOf(p.lookOf(b.series), b.series), []vg.Point{{X: b.left, Y: b.foot}, {X: b.left, Y: b.top}, {X: b.right, Y: b.top}, {X: b.right, Y: b.foot}})
	})
}

// nameBars writes values above bars, over whatever else is there, where there is room for them.
func (p *picture) nameBars(c draw.Canvas, at place) {
	style := writing(8.5, ink)
	p.eachBar(at, func(b bar) {
		name := figure(b.value, p.plot.Y.Unit)
		middle, half := (b.left+b.right)/2, style.Width(name)/2
		if half > 0.57*(b.right-b.left) {
			return
		}
		low := max(b.top, b.foot) + 1.5
		high := low + style.Height(name) - 1
		c.FillPolygon(color.White, []vg.Point{{X: middle - half, Y: low}, {X: middle - half, Y: high}, {X: middle + half, Y: high}, {X: middle + half, Y: low}})
		c.FillText(style, vg.Point{X: middle - half, Y: low}, name)
	})
}

// evenLines gives all labels as many lines as the longest has, or those with fewer would not begin at the same height.
func evenLines(ticks []plot.Tick) {
	most := 0
	for _, t := range ticks {
		most = max(most, strings.Count(t.Label, "\n"))
	}
	for i, t := range ticks {
		ticks[i].Label += strings.Repeat("\n ", most-strings.Count(t.Label, "\n"))
	}
}

// fillOf is a gateway's colour, or a light one of the same kind where others are dashed.
func fillOf(l look, s Series) color.Color {
	if !s.Dashed {
		return l.colour
	}
	r, g, b, _ := l.colour.RGBA()
	half := func(v uint32) uint8 { return uint8((v>>8 + 2*0xff) / 3) }
	return color.RGBA{R: half(r), G: half(g), B: half(b), A: 0xff}
}
