// Package pynfs runs pynfs, the NFSv4.1 and 4.2 server tests, against Manifold.
//
// Its nouns: a run is one call of pynfs' testserver.py, for one minor version
// and some groups or tests, on a fresh `manifold up` with an export made for it;
// a list of expectations (testdata) names the tests of a run that fail, each
// with its reason and what will be done about it. A failure that is not listed,
// and a listed test that passes, fail the test here.
//
// # Outside suites
//
// Nothing of them is in this repository. Each is looked for where an environment
// variable says, as an absolute path of a built tree; without it the tests skip.
// All need root. With -v the closing lines are seen; -count=1 keeps go from
// showing an older outcome.
//
// pynfs: PYNFS_DIR. Get kofemann/pynfs from GitHub (it follows the suite's own
// home), install Debian's python3-ply, python3-gssapi, python3-setuptools, swig
// and libkrb5-dev, and run "/usr/bin/python3 setup.py build" in it, which
// generates its XDR code in place. PYTHON names another interpreter than
// /usr/bin/python3. The runs go on side by side and take about six minutes, most
// of it waiting for leases to run out. In the run "reboot" the suite has the
// server killed and started again:
//
//	PYNFS_DIR=/src/pynfs go test -count=1 -v ./conformance/pynfs
//
// Connectathon: CTHON_DIR. Get phdeniel/cthon04 from GitHub, install libtirpc-dev,
// groff, time, make and gcc, and run make in it. pjdfstest: PJDFSTEST_DIR. Get
// pjd/pjdfstest from GitHub (the one in C, with tests/*/*.t), install autoconf,
// automake and perl, and run "autoreconf -ifs", "./configure" and "make
// pjdfstest" in it. xfstests: XFSTESTS_DIR. Get kdave/xfstests from GitHub,
// install xfslibs-dev, uuid-dev, libattr1-dev, libacl1-dev, libaio-dev,
// libgdbm-dev, libcap-dev, liburing-dev, autoconf, automake, libtool-bin, gettext,
// pkg-config, make and gcc, and to run it xfsprogs, acl, attr, bc, gawk, quota,
// uuid-runtime and psmisc, and run make in it. These three run on a mount in a
// kernel guest, by manifold/conformance/linux:
//
//	CTHON_DIR=/src/cthon04 go test -count=1 -v -run TestConnectathon ./conformance/linux
//	PJDFSTEST_DIR=/src/pjdfstest go test -count=1 -v -timeout 60m -run TestPJDFSTest ./conformance/linux
//	XFSTESTS_DIR=/src/xfstests go test -count=1 -v -timeout 180m -run TestXFSTests ./conformance/linux
//
// Connectathon takes two minutes for each minor version. All of pjdfstest takes
// 10 to 30; PJDFSTEST_TESTS chooses directories or files below its tests, such
// as "unlink rename/09.t". Of xfstests the group "quick" is run, which takes an
// hour on two idle cores, most of it the starting of programs in the guests;
// XFSTESTS_TESTS chooses tests, such as "generic/001 generic/013", and
// XFSTESTS_VERSION=4.1 the minor version. fsx and fsstress, which are part of it,
// always run.
//
// MANIFOLD_BIN names a manifold program to test instead of this module's.
package pynfs
