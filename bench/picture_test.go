package bench

import (
	"bytes"
	"errors"
	"image"
	"image/color"
	"image/draw"
	"math"
	"testing"
)

// has counts the points of a colour.
func has(picture image.Image, c color.Color) int {
	all := image.NewRGBA(picture.Bounds())
	draw.Draw(all, all.Bounds(), picture, all.Bounds().Min, draw.Src)
	want := color.RGBAModel.Convert(c).(color.RGBA)
	n := 0
	for i := 0; i < len(all.Pix); i += 4 {
		if all.Pix[i] == want.R && all.Pix[i+1] == want.G && all.Pix[i+2] == want.B {
			n++
		}
	}
	return n
}

// Every gateway is in every picture in its own colour, and most of a picture is paper.
func TestPictures(t *testing.T) {
	r := madeUp()
	looks := looksOf(r.Gateways)
	for _, s := range r.Scenarios {
		for _, p := range s.Plots {
			picture, err := drawPlot(p, r.Gateways, 96)
			if err != nil {
				t.Fatal(err)
			}
			if paper := has(picture, color.White); paper < 900*500/4 || paper > 900*500*98/100 {
				t.Errorf("%s: %d points are white", p.Name, paper)
			}
			for _, series := range p.Series {
				if n := has(picture, looks[series.Gateway].colour); n < 20 {
					t.Errorf("%s: %d points have the colour of %s", p.Name, n, series.Gateway)
				}
			}
		}
	}
	owner := map[color.Color]string{}
	for name, l := range looks {
		if owner[l.colour] != "" {
			t.Errorf("%s and %s look the same", name, owner[l.colour])
		}
		owner[l.colour] = name
	}
	if looks["colonnade"].colour != palette()[0] || !looks["colonnade"].strong || looks["fifo"].strong {
		t.Error("the gateway that is judged does not stand out")
	}
}

// Nothing of the series lies over the title and the legend.
func TestLegendIsFree(t *testing.T) {
	r := madeUp()
	p := r.Scenarios[0].Plots[0]
	low := p
	low.Series = nil
	for _, s := range p.Series {
		s.Y = make([]Value, len(s.Y)) // at the bottom
		low.Series = append(low.Series, s)
	}
	full, err1 := drawPlot(p, r.Gateways, pictureDPI)
	other, err2 := drawPlot(low, r.Gateways, pictureDPI)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	for y := range 140 { // of 1000
		for x := range 1800 {
			if full.At(x, y) != other.At(x, y) {
				t.Fatalf("at %d, %d something lies over the title or the legend", x, y)
			}
		}
	}
}

// Of many colours the most frequent stay as they are.
func TestFewColours(t *testing.T) {
	from := image.NewRGBA(image.Rect(0, 0, 100, 100))
	for i := range 100 * 100 {
		c := color.RGBA{R: uint8(i), G: uint8(i >> 8), A: 0xff} // each once
		if i%100 >= 50 {
			c = color.RGBA{B: 0xff, A: 0xff}
		}
		from.SetRGBA(i%100, i/100, c)
	}
	to := fewColours(from)
	if blue := has(to, color.RGBA{B: 0xff, A: 0xff}); blue != 5000 {
		t.Errorf("%d points of the most frequent colour, there were 5000", blue)
	}
	if p, ok := to.(*image.Paletted); !ok || len(p.Palette) != 256 {
		t.Fatalf("it is no picture of 256 colours: %T", to)
	}
	for i := range 100 * 50 {
		at := image.Point{X: i % 50, Y: i / 50}
		if want := to.(*image.Paletted).Palette.Convert(from.At(at.X, at.Y)); to.At(at.X, at.Y) != want {
			t.Fatalf("%v has become %v, and %v is nearer", from.At(at.X, at.Y), to.At(at.X, at.Y), want)
		}
	}
}

// Whatever a run has found, or not, can be drawn.
func TestPicturesOfOddities(t *testing.T) {
	nan, inf := Unmeasured(), Value(math.Inf(1))
	for _, kind := range []Kind{Lines, Bars, CDF} {
		for _, log := range []bool{false, true} {
			for _, values := range [][]Value{nil, {}, {nan}, {0}, {5}, {5, 5, 5}, {-1, 3}, {0, nan, 1e-9}, {inf, 1}, {1e12, 1}, {0.98, 0.99}, {0.95}} {
				p := Plot{
					Name: "odd", Title: "Odd", Kind: kind, X: Axis{Label: "x", Unit: "ms", Log: log}, Y: Axis{Label: "y", Unit: "%", Log: log},
					Series: []Series{{Gateway: "a", X: values, Y: values}, {Gateway: "b", X: []Value{1, 2}, Y: values, Dashed: true}, {Gateway: "nobody's"}},
					Lines:  []Line{{Name: "level", At: 0.5}, {Name: "moment", At: 1, Upright: true}, {Name: "none", At: nan}},
				}
				if _, err := drawPlot(p, []About{{Name: "a", Judged: true}, {Name: "b", Judged: true}}, 48); err != nil {
					t.Error(err)
				}
			}
		}
	}
	var b bytes.Buffer
	if err := WritePNG(&b, Plot{Name: "x", Kind: Lines}, nil); err == nil {
		t.Error("a plot without series was drawn")
	}
	if err := WritePNG(&b, Plot{Name: "x", Kind: "pie", Series: []Series{{}}}, nil); err == nil {
		t.Error("a pie was drawn")
	}
}

func TestTicks(t *testing.T) {
	f := func(a Axis, values []Value, want ...string) {
		t.Helper()
		s := scaleOf(a, values)
		var got []string
		for _, tick := range s.ticks {
			if tick.Label != "" {
				got = append(got, tick.Label)
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%v: ticks %q, want %q", values, got, want)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("%v: ticks %q, want %q", values, got, want)
			}
		}
	}
	f(Axis{}, []Value{3, 7}, "0", "2", "4", "6", "8")
	f(Axis{Unit: "%"}, []Value{0.5, 0.998}, "0", "20", "40", "60", "80", "100")
	f(Axis{Unit: "%"}, []Value{1.08}, "0", "20", "40", "60", "80", "100")
	f(Axis{Unit: "%"}, []Value{0.04}, "0", "1", "2", "3", "4")
	f(Axis{Unit: "%"}, []Value{2.1}, "0", "50", "100", "150", "200", "250")
	f(Axis{}, []Value{23000}, "0", "5000", "10,000", "15,000", "20,000", "25,000")
	f(Axis{Log: true}, []Value{0, 3, 150}, "2", "5", "10", "20", "50", "100", "200")
	f(Axis{Log: true}, []Value{0.4, 21500}, "1", "10", "100", "1000", "10,000")
	f(Axis{Log: true}, []Value{10}, "10", "20", "50", "100")
	if ticks := sampled(Axis{}, scale{max: 5}, []Value{0.5, 1, 2, 5, 1}); len(ticks) != 4 || ticks[0].Label != "0.5" {
		t.Errorf("ticks at the points: %v", ticks)
	}
	if ticks := sampled(Axis{}, scale{min: 1, max: 100, log: true}, []Value{1, 2, 100}); len(ticks) != 3 {
		t.Errorf("ticks at the points of a logarithmic axis: %v", ticks)
	}
	if ticks := sampled(Axis{}, scale{max: 100}, []Value{1, 2, 100}); ticks != nil {
		t.Errorf("ticks upon each other: %v", ticks)
	}
}
