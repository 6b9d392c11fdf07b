package bench

import (
	"strings"
	"unicode/utf8"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Parts of an entry of the legend.
const (
	swatchWidth  = 22.0
	swatchHeight = 9.0 // of bars, which are squares
	swatchGap    = 5.0
	entryGap     = 18.0
)

// drawLegend writes what the series are called along the top of the canvas, in as many lines as it takes, and returns how
// high it is.
func (p *picture) drawLegend(c draw.Canvas) vg.Length {
	height := writing(10.5, ink).Height("x") + 3
	x, y := c.Min.X, c.Max.Y-height
	wide := swatchWidth
	if p.bars {
		wide = swatchHeight
	}
	for _, s := range p.plot.Series {
		style := writing(10.5, ink)
		if p.lookOf(s).strong {
			style = bold(style)
		}
		width := vg.Length(wide+swatchGap) + style.Width(s.label())
		if x > c.Min.X && x+width > c.Max.X {
			x, y = c.Min.X, y-height
		}
		p.drawSwatch(c, vg.Rectangle{Min: vg.Point{X: x, Y: y}, Max: vg.Point{X: x + vg.Length(wide), Y: y + height - 3}}, s)
		c.FillText(style, vg.Point{X: x + vg.Length(wide+swatchGap), Y: y}, s.label())
		x += width + entryGap
	}
	return c.Max.Y - y
}

// drawSwatch shows how a series is drawn.
func (p *picture) drawSwatch(c draw.Canvas, in vg.Rectangle, s Series) {
	middle := (in.Min.Y + in.Max.Y) / 2
	if p.bars {
		const half = swatchHeight / 2
		c.FillPolygon(fillOf(p.lookOf(s), s), []vg.Point{{X: in.Min.X, Y: middle - half}, {X: in.Min.X, Y: middle + half},
			{X: in.Max.X, Y: middle + half}, {X: in.Max.X, Y: middle - half}})
		return
	}
	c.StrokeLine2(p.stroke(s), in.Min.X, middle, in.Max.X, middle)
	if p.plot.Kind == Lines && len(s.X) <= fewPoints {
		c.DrawGlyphNoClip(p.glyph(s), vg.Point{X: (in.Min.X + in.Max.X) / 2, Y: middle})
	}
}

// folded breaks a text at spaces into lines of at most so many letters, or of a word.
func folded(text string, most int) string {
	var out strings.Builder
	line := 0
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i > 0 && line+1+n > most:
			out.WriteByte('\n')
			line = 0
		case i > 0:
			out.WriteByte(' ')
			line++
		}
		out.WriteString(word)
		line += n
	}
	return out.String()
}
