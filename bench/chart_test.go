package bench

import (
	"bytes"
	"image"
	"image/color"
	stdraw "image/draw"
	"math"
	"strings"
	"testing"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/recorder"
)

// Each gateway is in each chart in a colour of its own, and most of a chart is white.
func TestChartsShowEachGateway(t *testing.T) {
	r := sampleReport()
	styles := stylesOf(r.Gateways)
	if styles["colonnade"].colour != palette()[0] || !styles["colonnade"].judged || styles["fifo"].colour == palette()[0] {
		t.Errorf("the judged gateway does not stand out: %+v", styles)
	}
	for _, c := range r.Scenarios[0].Charts {
		canvas, err := c.draw(r.Gateways)
		if err != nil {
			t.Fatal(err)
		}
		picture := canvas.Image()
		size, pixels := picture.Bounds().Size(), countPixels(picture)
		if size.X != 1350 || size.Y != 750 {
			t.Errorf("%s: %d × %d pixels", c.Name, size.X, size.Y)
		}
		if white := pixels[color.RGBA{0xff, 0xff, 0xff, 0xff}]; white < size.X*size.Y/4 || white > size.X*size.Y*98/100 {
			t.Errorf("%s: %d pixels are white", c.Name, white)
		}
		for name, style := range styles {
			if n := pixels[style.colour.(color.RGBA)]; n < 50 {
				t.Errorf("%s: %d pixels have the colour of %s", c.Name, n, name)
			}
		}
	}
}

// Everything that a run may find, or not, can be drawn.
func TestChartsOfOddValues(t *testing.T) {
	nan, inf := Unmeasured(), Value(math.Inf(1))
	for _, kind := range []chartKind{lineChart, barChart, cdfChart} {
		for _, log := range []bool{false, kind != barChart} { // bars begin at 0
			for _, values := range [][]Value{nil, {}, {nan}, {0}, {5}, {5, 5, 5}, {-1, 3}, {0, nan, 1e-9}, {inf, 1}, {1e12, 1}, {0.98, 0.99}, {0.95}} {
				c := chart{
					Name: "odd", Title: "Odd", Kind: kind, X: axis{Label: "x", Unit: "ms", Log: log}, Y: axis{Label: "y", Unit: "%", Log: log},
					Series:   []series{{Gateway: "a", X: values, Y: values}, {Gateway: "b", X: []Value{1, 2}, Y: values, Dashed: true}, {Gateway: "unknown"}},
					RefLines: []refLine{{Name: "level", At: 0.5}, {Name: "moment", At: 1, Vertical: true}, {Name: "none", At: nan}},
				}
				canvas := draw.NewCanvas(new(recorder.Canvas), chartWidth, chartHeight)
				if err := c.drawOn(canvas, []gatewayInfo{{Name: "a", Judged: true}, {Name: "b", Judged: true}}); err != nil {
					t.Errorf("%s, log %v, %v: %v", kind, log, values, err)
				}
			}
		}
	}
	if err := (&chart{Name: "x", Kind: "pie"}).writePNG(&bytes.Buffer{}, nil); err == nil || !strings.Contains(err.Error(), "pie") {
		t.Errorf("an unknown kind: %v", err)
	}
}

// countPixels counts the pixels of each colour, a run of one colour at once.
func countPixels(picture image.Image) map[color.RGBA]int {
	rgba := image.NewRGBA(picture.Bounds())
	stdraw.Draw(rgba, rgba.Rect, picture, rgba.Rect.Min, stdraw.Src)
	pixels := map[color.RGBA]int{}
	for pix := rgba.Pix; len(pix) > 0; {
		n := 4
		for n < len(pix) && [4]byte(pix[n:]) == [4]byte(pix) {
			n += 4
		}
		pixels[color.RGBA{pix[0], pix[1], pix[2], pix[3]}] += n / 4
		pix = pix[n:]
	}
	return pixels
}

func TestTicks(t *testing.T) {
	f := func(ticks []plot.Tick, want string) {
		t.Helper()
		var got []string
		for _, tick := range ticks {
			if tick.Label != "" {
				got = append(got, tick.Label)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("ticks %q, want %q", got, want)
		}
	}
	f(linearTicks(0, 8), "0 2 4 6 8")
	f(linearTicks(0, 100), "0 20 40 60 80 100")
	f(linearTicks(0, 14), "0 2 4 6 8 10 12 14")
	f(linearTicks(0, 0.042), "0 0.01 0.02 0.03 0.04")
	f(linearTicks(-3, 23000), "0 5000 10000 15000 20000")
	f(logTicks(2, 210), "2 5 10 20 50 100 200")
	f(logTicks(0.4, 21500), "0.5 1 2 5 10 20 50 100 200 500 1000 2000 5000 10000 20000")
	f(ticksAt([]Value{0.5, 1, Unmeasured(), 5}), "0.5 1 5")
}
