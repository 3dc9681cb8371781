// Half of a stepped shaft with its bearings and a key, cut along its axis. No difference(): each
// frame is drawn from meshes alone, as a viewer of CAD files does.
$fn = 96;
module half(points) rotate([0, 90, 0]) rotate_extrude(angle = 180) polygon(points);
color("silver") half([[0, -45], [8, -45], [8, -30], [12, -30], [12, -5], [18, -5], [18, 15], [12, 15],
    [12, 32], [7, 32], [7, 45], [0, 45]]);
for (at = [-22, 24]) {
    color("steelblue") half([[13, at - 5], [16, at - 5], [16, at + 5], [13, at + 5]]);
    color("steelblue") half([[22, at - 5], [25, at - 5], [25, at + 5], [22, at + 5]]);
    color("gold") for (turn = [0 : 20 : 180])
        translate([at, 0, 0]) rotate([turn, 0, 0]) translate([0, 0, 19]) sphere(3, $fn = 24);
}
color("firebrick") translate([0, 0, 16]) cube([14, 5, 8], center = true);
