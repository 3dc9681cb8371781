// A scooter for divers: a hull, a shroud with a screw in it, handles, fins and a lamp.
$fn = 64;
color("orange") rotate([0, 90, 0]) rotate_extrude()
    polygon([[0, -40], [6, -38], [11, -30], [13, -15], [13, 5], [9, 20], [4, 26], [0, 26]]);
color("dimgray") translate([22, 0, 0]) rotate([0, 90, 0]) rotate_extrude()
    polygon([[17, -7], [19, -8], [19, 8], [17, 7]]);
color("silver") for (blade = [0 : 4]) translate([22, 0, 0]) rotate([72 * blade, 0, 0])
    translate([0, 0, 9]) rotate([0, 0, 35]) scale([1, 0.15, 2]) sphere(4, $fn = 32);
color("dimgray") for (side = [-1, 1]) {
    translate([-8, 16 * side, 6]) rotate([0, 90, 0]) cylinder(r = 2, h = 16);
    for (at = [-8, 8]) translate([at, 16 * side, 6]) rotate([65 * side, 0, 0]) cylinder(r = 1.5, h = 9);
    translate([10, 10 * side, -2]) scale([2, 1, 0.12]) sphere(8);
}
color("lightyellow") translate([-36, 0, 6]) sphere(4);
for (ring = [-30 : 6 : 12]) color("black") translate([ring, 0, 0]) rotate([0, 90, 0])
    rotate_extrude() translate([ring < -18 ? 11.5 : 13, 0]) circle(0.5, $fn = 12);
