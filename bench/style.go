package bench

import (
	"image/color"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// seriesStyle is how the series of a gateway are drawn: the same in each chart.
type seriesStyle struct {
	colour color.Color
	shape  draw.GlyphDrawer // tells lines apart where colours do not
	judged bool
}

// Everything but the data is grey.
var (
	ink   = color.Gray{Y: 0x22}
	grey  = color.Gray{Y: 0x66}
	faint = color.Gray{Y: 0xdd}
)

// palette is that of Okabe and Ito, "Color Universal Design" (2008), which colour-blind readers can tell apart, without
// its yellow, which is too pale for a line. The first colour is for the judged gateway.
func palette() []color.Color {
	return []color.Color{
		color.RGBA{R: 0x00, G: 0x72, B: 0xb2, A: 0xff}, // blue
		color.RGBA{R: 0xe6, G: 0x9f, B: 0x00, A: 0xff}, // orange
		color.RGBA{R: 0x00, G: 0x9e, B: 0x73, A: 0xff}, // green
		color.RGBA{R: 0xd5, G: 0x5e, B: 0x00, A: 0xff}, // vermilion
		color.RGBA{R: 0xcc, G: 0x79, B: 0xa7, A: 0xff}, // purple
		color.RGBA{R: 0x56, G: 0xb4, B: 0xe9, A: 0xff}, // light blue
		grey,
	}
}

// stylesOf gives each gateway its style. Gateways beyond the palette are grey.
func stylesOf(gateways []gatewayInfo) map[string]seriesStyle {
	colours, styles, next := palette(), map[string]seriesStyle{}, 1
	for _, g := range gateways {
		style := seriesStyle{colour: colours[0], shape: draw.CircleGlyph{}, judged: true}
		if !g.Judged {
			i := min(next, len(colours)-1)
			style, next = seriesStyle{colour: colours[i], shape: plotutil.Shape(i)}, next+1
		}
		styles[g.Name] = style
	}
	return styles
}

func (d *drawing) styleOf(s series) seriesStyle {
	if style, ok := d.styles[s.Gateway]; ok {
		return style
	}
	return seriesStyle{colour: grey, shape: draw.RingGlyph{}}
}

func (s *seriesStyle) line(dashed bool) draw.LineStyle {
	line := draw.LineStyle{Color: s.colour, Width: 1.4}
	if s.judged {
		line.Width = 3.4
	}
	if dashed {
		line.Dashes = []vg.Length{5, 3}
	}
	return line
}

func (s *seriesStyle) marker() draw.GlyphStyle {
	marker := draw.GlyphStyle{Color: s.colour, Shape: s.shape, Radius: 3}
	if s.judged {
		marker.Radius = 5
	}
	return marker
}

func faintGrid() *plotter.Grid {
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = faint, faint
	grid.Vertical.Width, grid.Horizontal.Width = 0.5, 0.5
	return grid
}

func sans(size vg.Length) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
}

func boldSans(size vg.Length) font.Font {
	f := sans(size)
	f.Weight = xfont.WeightBold
	return f
}
