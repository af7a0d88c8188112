package op

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"manifold/layout"
)

// clerk answers questions about sizes when the test says so.
type clerk struct {
	asked  chan layout.Object
	answer chan answer
}

type answer struct {
	bytes uint64
	err   error
}

func newClerk() *clerk {
	return &clerk{asked: make(chan layout.Object, 100), answer: make(chan answer)}
}

func (c *clerk) ask(ctx context.Context, obj layout.Object) (uint64, error) {
	c.asked <- obj
	select {
	case a := <-c.answer:
		return a.bytes, a.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// clock is a clock that stands.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

func sizesOf(ask func(context.Context, layout.Object) (uint64, error)) (*sizes, *clock) {
	s, c := newSizes(ask), &clock{t: time.Unix(1000, 0)}
	s.now = c.now
	return s, c
}

// wantGet wants get to return want.
func wantGet(t *testing.T, s *sizes, end, want uint64) {
	t.Helper()
	if got, err := s.get(t.Context(), testObject, end); got != want || err != nil {
		t.Errorf("get(%d) = %d, %v; want %d", end, got, err, want)
	}
}

func TestSizeIsRememberedForHolesOnly(t *testing.T) {
	asked, bytes := 0, uint64(100)
	s, clock := sizesOf(func(context.Context, layout.Object) (uint64, error) { asked++; return bytes, nil })
	wantAsked := func(what string, want int) {
		t.Helper()
		if asked != want {
			t.Errorf("%s: asked %d times, want %d", what, asked, want)
		}
	}
	wantGet(t, s, 50, 100)
	wantAsked("first", 1)
	wantGet(t, s, 100, 100)
	wantAsked("a hole", 1)
	bytes = 200
	wantGet(t, s, 150, 200)
	wantAsked("past what is known", 2)
	clock.add(sizeLife - 1)
	wantGet(t, s, 200, 200)
	wantAsked("a hole, a little later", 2)
	clock.add(1)
	wantGet(t, s, 200, 200)
	wantAsked("a hole, too late", 3)
	s.forget(testObject)
	bytes = 10
	wantGet(t, s, 5, 10)
	wantAsked("forgotten", 4)
}

// TestSizeQuestionsAreShared: who comes while a question is under way waits for
// the next one, which all such share.
func TestSizeQuestionsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClerk()
		s, _ := sizesOf(c.ask)
		var first, later sync.WaitGroup
		get := func(wg *sync.WaitGroup, want uint64) {
			wg.Go(func() { wantGet(t, s, 1000, want) })
		}
		get(&first, 1)
		<-c.asked
		for range 20 {
			get(&later, 2)
		}
		synctest.Wait() // all wait
		c.answer <- answer{bytes: 1}
		first.Wait()
		<-c.asked
		c.answer <- answer{bytes: 2}
		later.Wait()
		if n := len(c.asked); n != 0 {
			t.Errorf("%d questions more", n)
		}
	})
}

// TestSizeForgottenWhileAsked: an answer to a question from before a truncation
// is not remembered.
func TestSizeForgottenWhileAsked(t *testing.T) {
	c := newClerk()
	s, _ := sizesOf(c.ask)
	var wg sync.WaitGroup
	wg.Go(func() { wantGet(t, s, 50, 100) })
	<-c.asked
	s.forget(testObject)
	c.answer <- answer{bytes: 100}
	wg.Wait()
	wg.Go(func() { wantGet(t, s, 50, 10) })
	<-c.asked
	c.answer <- answer{bytes: 10}
	wg.Wait()
}

func TestSizeErrors(t *testing.T) {
	boom := errors.New("boom")
	var err error = boom
	s, _ := sizesOf(func(context.Context, layout.Object) (uint64, error) { return 100, err })
	if _, got := s.get(t.Context(), testObject, 1); !errors.Is(got, boom) {
		t.Errorf("%v", got)
	}
	err = nil
	wantGet(t, s, 1, 100)

	c := newClerk()
	s, _ = sizesOf(c.ask)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, got := s.get(ctx, testObject, 1); !errors.Is(got, context.Canceled) {
		t.Errorf("a caller who left: %v", got)
	}
	<-c.asked
	c.answer <- answer{bytes: 7}
}

func TestSizesAreBounded(t *testing.T) {
	s, _ := sizesOf(func(context.Context, layout.Object) (uint64, error) { return 1, nil })
	for i := range uint64(3 * maxSizes) {
		if _, err := s.get(t.Context(), layout.Object{Inode: i}, 1); err != nil {
			t.Fatal(err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) > maxSizes+1 {
		t.Errorf("%d sizes remembered", len(s.known))
	}
}
