package store

import "fmt"

// viewTx is the Tx of a View.
type viewTx struct{ snap Snapshot }

func (t viewTx) Get(key []byte) ([]byte, error) { return t.snap.Get(key), nil }
func (t viewTx) Put(_, _ []byte) error          { return ErrReadOnly }
func (t viewTx) Delete(_ []byte) error          { return ErrReadOnly }

func (t viewTx) Scan(from, to []byte, fn func(key, val []byte) (bool, error)) error {
	return t.snap.Scan(from, to, fn)
}

// updateTx is the Tx of an Update: its own writes on top of the batch that
// gathers, on top of the batch that is being committed, on top of a Snapshot.
// The Snapshot may be from before or after that Commit; both look the same
// from here.
type updateTx struct {
	g    *Group
	snap Snapshot // taken when first needed
	saw  *batch   // the latest batch of which something was read
	err  error    // the first error of a Get, Put, Delete or Scan
}

func (t *updateTx) release() {
	if t.snap != nil {
		t.snap.Release()
	}
}

// base returns the Snapshot.
func (t *updateTx) base() (Snapshot, error) {
	if t.snap == nil {
		snap, err := t.g.backend.Snapshot()
		if err != nil {
			return nil, t.fail(err)
		}
		t.snap = snap
	}
	return t.snap, nil
}

func (t *updateTx) fail(err error) error {
	if t.err == nil {
		t.err = err
	}
	return err
}

// note records that something of b was read.
func (t *updateTx) note(b *batch) {
	if t.saw != t.g.filling {
		t.saw = b
	}
}

// pending says what the overlay knows of key.
func (t *updateTx) pending(key []byte) (val []byte, ok bool) {
	if val, ok = t.g.own.get(key); ok {
		return val, true
	}
	for _, b := range [...]*batch{t.g.filling, t.g.flushing} {
		if b == nil {
			continue
		}
		if val, ok = b.get(key); ok {
			t.note(b)
			return val, true
		}
	}
	return nil, false
}

func (t *updateTx) Get(key []byte) ([]byte, error) {
	if val, ok := t.pending(key); ok {
		return val, nil
	}
	snap, err := t.base()
	if err != nil {
		return nil, err
	}
	return snap.Get(key), nil
}

func (t *updateTx) Put(key, val []byte) error {
	if len(val) > MaxValue {
		return t.fail(fmt.Errorf("%w: value of %d bytes", ErrTooLarge, len(val)))
	}
	return t.write(key, append(make([]byte, 0, len(val)), val...))
}

func (t *updateTx) Delete(key []byte) error { return t.write(key, nil) }

func (t *updateTx) write(key, val []byte) error {
	if len(key) == 0 || len(key) > MaxKey {
		return t.fail(fmt.Errorf("%w: key of %d bytes", ErrTooLarge, len(key)))
	}
	t.g.own.set(string(key), val)
	if n := len(t.g.own.vals); n > MaxUpdateOps || t.g.own.bytes > MaxUpdateBytes {
		return t.fail(fmt.Errorf("%w: update of %d writes, %d bytes", ErrTooLarge, n, t.g.own.bytes))
	}
	return nil
}

func (t *updateTx) Scan(from, to []byte, fn func(key, val []byte) (bool, error)) error {
	snap, err := t.base()
	if err != nil {
		return err
	}
	over := t.overlay(from, to)
	stopped := false
	emit := func(key, val []byte) (bool, error) {
		more, err := fn(key, val)
		stopped = err != nil || !more
		return !stopped, err
	}
	err = snap.Scan(from, to, func(key, val []byte) (bool, error) {
		if more, err := over.upTo(key, emit); !more {
			return false, err
		}
		if over.has(key) {
			return true, nil // what the overlay says comes next
		}
		return emit(key, val)
	})
	if err == nil && !stopped {
		_, err = over.upTo(nil, emit)
	}
	return err
}

// overlay walks the pending keys of a range.
type overlay struct {
	t    *updateTx
	keys [3][]string // of own, filling, flushing: what is left
}

func (t *updateTx) overlay(from, to []byte) *overlay {
	o := &overlay{t: t}
	o.keys[0] = t.g.own.within(from, to)
	o.keys[1] = t.g.filling.within(from, to)
	if t.g.flushing != nil {
		o.keys[2] = t.g.flushing.within(from, to)
	}
	return o
}

// first returns the smallest key that is left.
func (o *overlay) first() (key string, ok bool) {
	for _, keys := range o.keys {
		if len(keys) > 0 && (!ok || keys[0] < key) {
			key, ok = keys[0], true
		}
	}
	return key, ok
}

// has says whether key is the smallest key that is left.
func (o *overlay) has(key []byte) bool {
	first, ok := o.first()
	return ok && first == string(key)
}

// upTo hands out what is left below limit, or all of it if limit is nil.
func (o *overlay) upTo(limit []byte, emit func(key, val []byte) (bool, error)) (bool, error) {
	for {
		key, ok := o.first()
		if !ok || limit != nil && key >= string(limit) {
			return true, nil
		}
		for i, keys := range o.keys {
			if len(keys) > 0 && keys[0] == key {
				o.keys[i] = keys[1:]
			}
		}
		k := []byte(key)
		val, _ := o.t.pending(k)
		if val == nil {
			continue
		}
		if more, err := emit(k, val); !more {
			return false, err
		}
	}
}
