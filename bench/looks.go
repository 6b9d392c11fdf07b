package bench

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// look is how a gateway is drawn, in each picture the same.
type look struct {
	colour color.Color
	shape  draw.GlyphDrawer // tells lines apart where colours do not
	strong bool
}

// palette is that of Okabe and Ito, "Color Universal Design" (2008), which people tell apart whatever their eyes make of
// colours; without its yellow, which is too pale for a line. The first is for the gateway that is judged.
func palette() []color.Color {
	return []color.Color{
		color.RGBA{R: 0x00, G: 0x72, B: 0xb2, A: 0xff}, // blue
		color.RGBA{R: 0xe6, G: 0x9f, B: 0x00, A: 0xff}, // orange
		color.RGBA{R: 0x00, G: 0x9e, B: 0x73, A: 0xff}, // green
		color.RGBA{R: 0xd5, G: 0x5e, B: 0x00, A: 0xff}, // vermilion
		color.RGBA{R: 0xcc, G: 0x79, B: 0xa7, A: 0xff}, // purple
		color.RGBA{R: 0x56, G: 0xb4, B: 0xe9, A: 0xff}, // light blue
		color.RGBA{R: 0x66, G: 0x66, B: 0x66, A: 0xff}, // grey
	}
}

func shapes() []draw.GlyphDrawer {
	return []draw.GlyphDrawer{
		draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.RingGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.CrossGlyph{},
	}
}

// looksOf gives each gateway its look. Those beyond the palette are grey.
func looksOf(gateways []About) map[string]look {
	colours, forms := palette(), shapes()
	looks := map[string]look{}
	next := 1
	for _, g := range gateways {
		if g.Judged && len(looks) == next-1 { // nobody has the first yet
			looks[g.Name] = look{colour: colours[0], shape: forms[0], strong: true}
			continue
		}
		i := min(next, len(colours)-1)
		looks[g.Name] = look{colour: colours[i], shape: forms[i], strong: g.Judged}
		next++
	}
	return looks
}

// What is not data is grey: it must not compete.
var (
	ink  = color.Gray{Y: 0x22}
	pale = color.Gray{Y: 0x66}
	grid = color.Gray{Y: 0xe4}
)

// writing is a style of text, whose place is its lower left corner.
func writing(size vg.Length, colour color.Color) text.Style {
	return text.Style{
		Color:   colour,
		Font:    font.Font{Typeface: "Liberation", Variant: "Sans", Size: size},
		XAlign:  draw.XLeft,
		YAlign:  draw.YBottom,
		Handler: plot.DefaultTextHandler,
	}
}

func bold(s text.Style) text.Style {
	s.Font.Weight = 3 // WeightBold of golang.org/x/image/font
	return s
}
