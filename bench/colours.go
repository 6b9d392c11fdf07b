package bench

import (
	"cmp"
	"image"
	"image/color"
	"image/draw"
	"slices"
)

// fewColours makes a picture of at most 256 colours, which takes a third of the room: those that it has most of; the others,
// which are shades at the edges of lines, become the nearest of these.
func fewColours(from image.Image) image.Image {
	bounds := from.Bounds()
	all := image.NewRGBA(bounds)
	draw.Draw(all, bounds, from, bounds.Min, draw.Src)
	counts := map[color.RGBA]int{}
	for at := 0; at < len(all.Pix); {
		c, end := run(all.Pix, at)
		counts[c] += (end - at) / 4
		at = end
	}
	var colours []color.RGBA
	for c := range counts {
		colours = append(colours, c)
	}
	slices.SortFunc(colours, func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(number(a), number(b)))
	})
	var most color.Palette
	for _, c := range colours[:min(len(colours), 256)] {
		most = append(most, c)
	}
	nearest := map[color.RGBA]uint8{}
	for _, c := range colours {
		nearest[c] = uint8(most.Index(c))
	}
	to := image.NewPaletted(bounds, most)
	for at := 0; at < len(all.Pix); {
		c, end := run(all.Pix, at)
		for i := at; i < end; i += 4 {
			to.Pix[i/4] = nearest[c]
		}
		at = end
	}
	return to
}

// run is the colour of a point, and where another one begins: most of a picture is paper.
func run(pix []uint8, at int) (c color.RGBA, end int) {
	c = color.RGBA{R: pix[at], G: pix[at+1], B: pix[at+2], A: pix[at+3]}
	for end = at + 4; end < len(pix) && pix[end] == c.R && pix[end+1] == c.G && pix[end+2] == c.B && pix[end+3] == c.A; end += 4 {
	}
	return c, end
}

func number(c color.RGBA) int { return int(c.R)<<16 | int(c.G)<<8 | int(c.B) }
