//! Wrong orders do not compile (requirements A2, D3).

#[test]
fn wrong_orders_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/cases/*.rs");
}
